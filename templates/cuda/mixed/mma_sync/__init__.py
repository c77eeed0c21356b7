"""Mixed-input products on mma.sync: the tensor cores of sm_75 to sm_89."""
