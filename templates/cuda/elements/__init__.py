"""Products with weights of few single values on CUDA cores."""
