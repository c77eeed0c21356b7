"""An operator that autoq does not come with: rows turned round, whatever their elements are."""
