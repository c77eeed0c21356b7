"""Random quantised graphs, and what each of their outputs may be."""
