"""What neither a template nor a CUDA formula computes: TE expressions under TVM's schedules."""
