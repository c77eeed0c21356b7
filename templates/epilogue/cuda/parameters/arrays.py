"""The arrays that an epilogue on CUDA reads and writes."""

import copy

from tvm.script import tirx as T


@T.meta_class
class RangeArrays:
    """What an epilogue that quantises by a range writes besides y, and the words of the grid."""

    def __init__(self, scale, zero_point, words):
        self.scale, self.zero_point, self.words = scale, zero_point, words


@T.meta_class
class EpilogueArrays:
    """Arrays of an epilogue in global memory, and a thread's registers of one.

    bias: int32; scale, scalars: float32, any array for int32 outputs, which read neither; residual:
    any array where there is none; words: registers that hold a thread's residuals; y: the output;
    row_scale: float32, where there is one; of_run: registers of a dynamic epilogue's two numbers.
    """

    def __init__(self, bias, scale, scalars, residual, words, y, row_scale=None, of_run=None):
        self.bias, self.scale, self.scalars = bias, scale, scalars
        self.residual, self.words = residual, words
        self.y = y
        self.row_scale, self.of_run = row_scale, of_run
        self.staged = None

    def laid_out(self, staged):
        """The same, with the rows that a warp lays out in place of y."""
        arrays = copy.copy(self)
        arrays.staged = staged
        return arrays

    def output(self, pixel, channel, channels):
        """The pointer of an output, of so many channels of a pixel."""
        if self.staged is not None:
            return self.staged.at(pixel, channel)
        return self.y.ptr_to([pixel.index * channels + channel])

    def row_scales(self, epilogue, images, exist):
        """The row scales of two rows, by their images; expressions, for those that exist.

        Of a dynamic epilogue the scale and the zero point of x.
        """
        if epilogue.dynamic:
            return [self.of_run[0], self.of_run[1]]
        if not epilogue.row_scale:
            return []
        return [
            T.if_then_else(inside, self.row_scale[image], T.float32(0))
            for image, inside in zip(images, exist, strict=True)
        ]
