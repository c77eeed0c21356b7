"""The arrays that an epilogue on CUDA reads and writes."""

from tvm.script import tirx as T


@T.meta_class
class EpilogueArrays:
    """Arrays of an epilogue in global memory, and a thread's registers of one.

    bias: int32; scale, scalars: float32, any array for int32 outputs, which read neither; residual:
    any array where there is none; words: registers that hold a thread's residuals; y: the output.
    """

    def __init__(self, bias, scale, scalars, residual, words, y):
        self.bias, self.scale, self.scalars = bias, scale, scalars
        self.residual, self.words = residual, words
        self.y = y
