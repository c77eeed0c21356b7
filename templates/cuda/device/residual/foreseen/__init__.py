"""What matters of both sides of a product before it is computed, where no products cancel."""
