"""What kernels are held against: references in numpy, how far sums may be off, random arrays."""
