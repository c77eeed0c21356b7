"""Formats of sparse matrices: pure functions over numpy arrays, which import no sparse library."""
