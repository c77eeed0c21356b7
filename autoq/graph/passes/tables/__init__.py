"""Functions of one quantised tensor become tables, which the kernel in front may look up."""
