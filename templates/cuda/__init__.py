"""CUDA kernels as TIRx: tensor-core convolution and GEMM, and kernels limited by memory.

A module with a `TEMPLATE` joins by being in this folder or in one below it.
"""
