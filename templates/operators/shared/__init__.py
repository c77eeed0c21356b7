"""Several products of one matrix in a launch: of bytes, and of floats with narrow weights."""
