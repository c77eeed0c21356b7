"""Tile-wise products and a convolution of which the tests of the picking kernel pick rows."""

from __future__ import annotations

from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
CLASS = Sparsity("tw", 64, 160, Structure(512, 192, 320))
BYTES = Gemm(100, 300, 416, sparsity=CLASS)
FLOATS = FloatGemm(100, 300, 416, weight_dtype="float16", sparsity=CLASS)
PIXELS = Conv2d(
    2, 7, 9, 64, 100, 3, 3, padding=(1, 1, 1, 1),
    sparsity=Sparsity("tw", 32, 80, Structure(640, 224, 320)),
)  # fmt: skip
EMPTY = Sparsity("tw", 8, 0, Structure(0, 0, 0))
