"""What neither a template nor a CUDA program computes: TE expressions under TVM's schedules."""
