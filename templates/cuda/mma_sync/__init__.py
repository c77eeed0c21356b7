"""The template conv2d_mma_sync: tensor cores of every GPU since Turing."""
