"""Workloads of every kind of template, small, for the contract that all templates keep."""

from __future__ import annotations

from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.add import Add
from autoq.templates.operators.attention import Attention
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.operators.concat import Concat
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.dequantize import Dequantize
from autoq.templates.operators.dynamic_quantize import DynamicQuantize
from autoq.templates.operators.float_conv2d import FloatConv2d
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.lookup import Lookup
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.operators.quantize import Quantize
from autoq.templates.operators.relayout import Relayout
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.operators.sddmm import Sddmm
from autoq.templates.operators.shared.shared_float_gemm import SharedFloatGemm
from autoq.templates.operators.shared.shared_gemm import SharedGemm
from autoq.templates.operators.sparse_attention import SparseAttention
from autoq.templates.operators.spmm import Spmm
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.sparse.structure import Structure
from autoq.templates.workload import Workload

RESIDUAL = Epilogue("uint8", "uint8", True)
WORKLOADS: list[Workload] = [
    Conv2d(2, 14, 14, 64, 64, 3, 3, padding=(1, 1, 1, 1), in_dtype="uint8", epilogue=RESIDUAL),
    Conv2d(1, 15, 13, 32, 40, 3, 3, (2, 2), (0, 1, 1, 0), zero_point_border=True,
           border_bias=True),
    Conv2d(1, 12, 12, 16, 64, 4, 4, padding=(2, 2, 1, 1), in_dtype="int8"),
    Conv2d(2, 11, 12, 32, 48, 3, 3, (2, 1), (1, 1, 1, 1), epilogue=Epilogue("uint8")),
    Conv2d(2, 9, 9, 128, 256, 1, 1, epilogue=Epilogue("float32")),
    Conv2d(1, 11, 11, 48, 48, 3, 3, padding=(1, 1, 1, 1), groups=48),
    Conv2d(1, 8, 8, 3, 5, 3, 3, dilation=(2, 2), in_dtype="float32", weight_dtype="float32",
           epilogue=Epilogue("float32")),
    Gemm(8, 1000, 512, in_dtype="uint8"),
    *(Gemm(8, 48, 64), Gemm(3, 10, 64, epilogue=Epilogue("int32"))),
    Gemm(4, 24, 35, epilogue=Epilogue("bfloat16", row_scale=True, float_bias=True)),
    BatchedGemm(1, 17, 20, 16, 2, "uint8", "int8", "bmhk", "bnhk"),
    BatchedGemm(2, 20, 32, 38, 2, "uint8", "int8", "bhmk", "bkhn", "bmhn"),
    BatchedGemm(2, 5, 6, 9, other_order="bhkn", epilogue=Epilogue("uint8", "int8", True)),
    ResidualGemm(20, 24, 35, correction="none"),
    Pool2d("max", 2, 15, 15, 32, 3, 3, (2, 2), (1, 1, 1, 1)),
    Pool2d("average", 2, 7, 7, 64, 7, 7, in_dtype="uint8", out_dtype="uint8", requantize=True),
    Add((2, 7, 7, 32)),
    Concat(49, (16, 24), ("int8", "uint8"), (False, True)),
    *(Quantize(2, 16, 16, 3, 16, 2), DynamicQuantize(50)),
    Dequantize(2, 7, 7, 24),
    Lookup((2, 7, 7, 24)),
]  # fmt: skip
BLOCKED = [
    Conv2d(8, 7, 7, 32, 48, 3, 3, in_layout="NHWCnc", out_layout="NHWCnc", epilogue=RESIDUAL),
    Conv2d(8, 7, 7, 32, 24, 1, 1, in_layout="NHWCnc"),
    Conv2d(8, 9, 9, 24, 32, 3, 3, out_layout="NHWCnc"),
]
FOUR_BIT = [
    Conv2d(2, 9, 9, 64, 37, 3, 3, padding=(1, 1, 1, 1), in_dtype="uint4", weight_dtype="int4",
           zero_point_border=True, epilogue=Epilogue("int4", "uint4")),
    Conv2d(2, 9, 9, 12, 24, 3, 3, weight_dtype="int4", epilogue=Epilogue("uint4")),
]  # fmt: skip
TABLE = Epilogue("uint8", table=True)
WITH_TABLE = [
    Conv2d(2, 14, 14, 32, 48, 3, 3, padding=(1, 1, 1, 1), zero_point_border=True, epilogue=TABLE),
    Conv2d(1, 11, 11, 48, 48, 3, 3, padding=(1, 1, 1, 1), groups=48, epilogue=TABLE),
    Conv2d(8, 9, 9, 32, 32, 1, 1, out_layout="NHWCnc", epilogue=Epilogue("int8", table=True)),
    Gemm(8, 40, 64, in_dtype="uint8", epilogue=TABLE),
]
DYNAMIC = [Gemm(4, 24, 32, "uint8", epilogue=Epilogue("uint8", dynamic=True, by_range=True))]
FLOAT_PRODUCTS = [
    FloatGemm(70, 136, 320, "bfloat16", "int8", "bfloat16", bias=True, activation="gelu_tanh"),
    FloatGemm(9, 64, 256, weight_dtype="uint4", group=64, zero_points=True),
    FloatGemm(40, 72, 64, weight_dtype="float16"),
    FloatConv2d(1, 9, 8, 24, 72, 3, 3, (2, 1), (1, 0, 1, 1), bias=True, activation="silu"),
    FloatConv2d(1, 9, 8, 24, 32, 3, 3, (1, 2), (1, 0, 1, 1), activation="relu", groups=8),
    BatchedGemm(2, 33, 24, 49, 2, *["float16"] * 2, "bhmk", "bhkn", epilogue=Epilogue("float16")),
    BatchedGemm(1, 40, 40, 64, 2, "bfloat16", "bfloat16", epilogue=Epilogue("float32")),
    FloatGemm(5, 37, 100, "float32", "int4", "float32", bias=True),
    BatchedGemm(1, 40, 21, 35, 2, *["float32"] * 2, "bmhk", "bkhn", "bmhn", Epilogue("float32")),
    Attention(1, 2, 40, 70, 24, *["bfloat16"] * 3, "bfloat16", mask_axes="hmn", constant_mask=True),
    Attention(1, 2, 40, 70, 64, *["uint8"] * 3, "int8", quantised_scores=True),
    Attention(1, 2, 40, 70, 24, *["float32"] * 3, "uint8", mask_axes="n"),
]  # fmt: skip
TILES = Sparsity("tw", 16, 40, Structure(96, 32, 64))
SINGLE = Sparsity("ew", 1, 48, Structure(192, 4, 12), Structure(160, 24, 40))
INSIDE = Sparsity("tvw", 16, 40, Structure(96, 32, 64), Structure(24, 8, 16))
BESIDE = Sparsity("tew", 16, 48, Structure(96, 32, 32), Structure(128, 4, 10))
SPARSE = [
    Gemm(40, 50, 70, sparsity=SINGLE), Gemm(40, 50, 70, sparsity=BESIDE),
    Gemm(40, 50, 70, sparsity=TILES), Gemm(40, 52, 80, sparsity=Sparsity.two_four()),
    Gemm(40, 50, 80, sparsity=TILES), Gemm(40, 52, 80, sparsity=TILES),
    Gemm(40, 52, 80, sparsity=INSIDE),
    Conv2d(1, 5, 6, 16, 50, 2, 3, padding=(0, 1, 1, 1), sparsity=TILES),
    Gemm(48, 64, 70, sparsity=Sparsity("vectors", 32, 64, Structure(96, 28, 40))),
    FloatGemm(40, 72, 64, weight_dtype="float16", sparsity=TILES),
    Spmm(40, 64, 150, 8, Structure(96, 20, 40), "uint4"),
    Spmm(70, 48, 150, 32, Structure(96, 28, 40)),
    Spmm(150, 48, 150, 128, Structure(96, 48, 64)),
    Spmm(21, 33, 40, 2, Structure(48, 5, 16), "uint8", epilogue=Epilogue("float32", "int8")),
    Sddmm(40, 48, 150, 8, Structure(96, 20, 40)),
    SparseAttention(1, 2, 61, 300, 64, Structure(224, 28, 80), softmax_bits=16),
    SparseAttention(1, 1, 24, 64, 40, Structure(80, 28, 56), "bfloat16", 8, 4),
    Sddmm(21, 33, 40, 2, Structure(48, 5, 16), "uint16", "int16", "float16", 16),
]  # fmt: skip
NIBBLES = Gemm(7, 33, 66, "uint4", "int4")
RELAYOUT = Relayout(8, 5, 6, 48, "NHWCnc", "NHWC", "uint8")
OF_ALL: list[Workload] = [*WORKLOADS, *BLOCKED, *FOUR_BIT, *WITH_TABLE, *DYNAMIC, *FLOAT_PRODUCTS,
          *SPARSE, SharedGemm(2, 20, 40, 64, epilogue=TABLE), NIBBLES, RELAYOUT,
          SharedFloatGemm(3, 20, 40, 64, weight_dtype="int4", group=32)]  # fmt: skip
