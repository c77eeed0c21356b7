"""Changes of models, of their parts and of files, drawn at random."""
