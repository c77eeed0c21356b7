"""Products of float32 matrices through integers, with the error that quantising makes corrected."""
