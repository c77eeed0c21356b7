"""What templates compute: products and movement, fused with the quantisation around them."""
