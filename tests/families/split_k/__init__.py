"""An operator that autoq does not come with, a long product, and templates that split its sums."""
