"""Products with 2:4 sparse weights on sparse tensor cores."""
