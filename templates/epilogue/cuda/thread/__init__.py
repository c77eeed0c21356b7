"""The epilogue of a thread that holds a few neighbouring output channels of a pixel."""
