"""Loading and running compiled kernels with a driver and TVM's runtime, no compiler."""
