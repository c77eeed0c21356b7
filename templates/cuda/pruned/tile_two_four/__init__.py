"""Products whose weights are 2:4 inside tiles, on sparse tensor cores that pick from x."""
