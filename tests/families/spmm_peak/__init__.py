"""An operator that autoq does not come with: sparse rows times a matrix, and the largest sums."""
