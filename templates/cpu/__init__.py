"""CPU kernels through LLVM: PrimFuncs built with TVM's IR builder, no schedule transformations.

A module with a `TEMPLATE` joins by being in this folder or in one below it.
"""
