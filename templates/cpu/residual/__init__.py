"""Products of float32 matrices through integers, compensated for what quantising loses."""
