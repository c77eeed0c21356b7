"""An emulator of NVIDIA GPUs: runs the PTX that nvcc makes of a kernel on this CPU."""
