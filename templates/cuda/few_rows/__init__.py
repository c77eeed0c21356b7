"""Products of few rows of x with large weights, which stream through tensor cores once."""
