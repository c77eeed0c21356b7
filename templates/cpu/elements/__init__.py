"""Products with weights of few single values on a CPU."""
