"""The arrays that an epilogue on CUDA reads and writes."""

from tvm.script import tirx as T


@T.meta_class
class EpilogueArrays:
    """Arrays of an epilogue in global memory, and a thread's registers of one.

    bias: int32; scale, scalars: float32, any array for int32 outputs, which read neither; residual:
    any array where there is none; words: registers that hold a thread's residuals; y: the output;
    row_scale: float32, where there is one.
    """

    def __init__(self, bias, scale, scalars, residual, words, y, row_scale=None):
        self.bias, self.scale, self.scalars = bias, scale, scalars
        self.residual, self.words = residual, words
        self.y = y
        self.row_scale = row_scale

    def row_scales(self, epilogue, images, exist):
        """The row scales of two rows, by their images; expressions, for those that exist."""
        if not epilogue.row_scale:
            return []
        return [
            T.if_then_else(inside, self.row_scale[image], T.float32(0))
            for image, inside in zip(images, exist, strict=True)
        ]
