"""What an epilogue reads: scalars, scales and tables, packed for kernels and in shared memory."""
