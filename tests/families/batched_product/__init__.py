"""An operator that autoq does not come with: products whose factors are both activations."""
