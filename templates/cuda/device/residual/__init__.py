"""Float32 products through integers on CUDA: what quantises, selects and corrects beside them."""
