"""Small workloads for every kernel template of a GPU, as `check_kernels.py` takes them.

Small enough for compute-sanitizer, which runs each kernel some hundred times slower: see
`launch_kernels.py`.
"""

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

TILES = Sparsity("tw", 32, 80, Structure(160, 56, 80))
SINGLE = Sparsity("ew", 1, 112, Structure(640, 7, 20), Structure(512, 32, 80))
INSIDE = Sparsity("tvw", 32, 80, Structure(160, 56, 80), Structure(40, 14, 20))
BESIDE = Sparsity("tew", 32, 96, Structure(160, 56, 56), Structure(320, 4, 10))

CASES: list[Workload] = [
    Conv2d(2, 14, 14, 64, 64, 3, 3, padding=(1, 1, 1, 1), zero_point_border=True),
    Conv2d(2, 9, 9, 80, 48, 3, 3, (2, 2), (1, 1, 1, 1), in_dtype="uint8"),
    Conv2d(2, 9, 9, 64, 144, 1, 1, epilogue=Epilogue("uint8", "uint8", True)),
    Conv2d(1, 9, 9, 24, 48, 3, 3, padding=(1, 1, 1, 1), groups=3),
    Conv2d(1, 11, 11, 48, 48, 3, 3, padding=(1, 1, 1, 1), groups=48),
    Conv2d(8, 7, 7, 32, 48, 3, 3, padding=(1, 1, 1, 1), in_layout="NHWCnc", out_layout="NHWCnc"),
    Conv2d(2, 9, 9, 64, 40, 3, 3, padding=(1, 1, 1, 1), in_dtype="uint4", weight_dtype="int4",
           epilogue=Epilogue("uint4")),
    Gemm(9, 40, 64, epilogue=Epilogue("int32")),
    Gemm(3, 70, 500, "uint8", "uint8", Epilogue("uint8", "int8", True)),
    Gemm(20, 96, 160, "uint8"),
    Gemm(70, 88, 96, "uint8", epilogue=Epilogue("uint8", "int8", True, factor=True)),
    Gemm(70, 52, 99, epilogue=Epilogue("float16", row_scale=True, activation="gelu")),
    SharedGemm(3, 70, 96, 64, "uint8", epilogue=Epilogue("uint8")),
    SharedGemm(2, 150, 72, 160, epilogue=Epilogue("int8", table=True)),
    SharedGemm(2, 100, 72, 96, "uint8", epilogue=Epilogue("float32")),
    SharedFloatGemm(3, 33, 72, 192, weight_dtype="int4", group=32, bias=True),
    SharedFloatGemm(2, 70, 264, 144, weight_dtype="float16", activation="gelu"),
    FloatGemm(130, 264, 320, weight_dtype="int4", group=64, zero_points=True),
    FloatGemm(33, 65, 127, bias=True, activation="gelu_tanh"),
    FloatGemm(33, 72, 144, "bfloat16", "int8", "bfloat16", x_scale=True, residual=True, batch=2),
    FloatGemm(5, 37, 100, "float32", "int4", "float32", bias=True),
    FloatGemm(300, 200, 512, "bfloat16", "int8", "bfloat16", bias=True, activation="silu"),
    FloatConv2d(2, 9, 8, 72, 40, 3, 3, (2, 2), (1, 0, 1, 1), residual=True, activation="relu",
                residual_first=True),
    FloatConv2d(1, 7, 7, 8, 64, 2, 3, (1, 1), (0, 1, 1, 2), (2, 1), *["bfloat16"] * 2, bias=True),
    FloatConv2d(2, 9, 8, 24, 24, 3, 3, (1, 1), (1, 1, 1, 1), bias=True, activation="silu",
                groups=24),
    FloatConv2d(1, 8, 9, 24, 36, 3, 2, (2, 1), (1, 0, 1, 1), (1, 2), residual=True, groups=3),
    FloatConv2d(1, 7, 7, 48, 96, 3, 3, (1, 1), (1, 1, 1, 1), bias=True, groups=6),
    DynamicQuantize(5001),
    BatchedGemm(1, 40, 21, 35, 2, *["float32"] * 2, "bmhk", "bkhn", "bmhn", Epilogue("float32")),
    BatchedGemm(2, 17, 20, 16, 3, "uint8", "int8", "bmhk", "bnhk", epilogue=Epilogue("uint8")),
    BatchedGemm(1, 20, 16, 42, 2, "int8", "uint8", "bhmk", "bkhn", "bmhn"),
    BatchedGemm(2, 70, 40, 66, 2, *["float16"] * 2, "bmhk", "bnhk", epilogue=Epilogue("float32")),
    BatchedGemm(1, 40, 24, 49, 4, *["float16"] * 2, "bhmk", "bkhn", "bmhn", Epilogue("float16")),
    BatchedGemm(2, 45, 77, 64, 2, "int8", "uint8", "bmhk", "bnhk"),
    BatchedGemm(1, 70, 96, 168, 2, *["bfloat16"] * 2, "bhmk", "bkhn", "bmhn", Epilogue("bfloat16")),
    Attention(1, 2, 33, 49, 32, q_order="blhd", v_order="blhd", mask_axes="bn"),
    Attention(2, 2, 19, 70, 36, *["uint8"] * 3, "int8", quantised_scores=True, y_order="blhd"),
    Attention(1, 2, 40, 100, 24, *["bfloat16"] * 3, "float32", mask_axes="hmn", constant_mask=True,
              causal=True),
    Attention(1, 2, 35, 80, 64, "uint8", "int8", "int8", "uint8", k_order="blhd", mask_axes="n",
              quantised_scores=True, quantised_masked=True),
    Attention(1, 2, 37, 75, 42, *["float32"] * 4, "blhd", v_order="blhd", mask_axes="bn"),
    ResidualGemm(40, 50, 70, correction="none", bias=True),
    ResidualGemm(33, 52, 96, correction="full", constant_b=True),
    ResidualGemm(50, 140, 72),
    Spmm(61, 64, 150, 8, Structure(224, 28, 80), epilogue=Epilogue("int32")),
    Spmm(70, 128, 300, 8, Structure(320, 40, 256), "uint8", "uint8", Epilogue("uint8")),
    Spmm(40, 70, 150, 4, Structure(224, 28, 80), "uint8", epilogue=Epilogue("uint8", "int8", True)),
    Spmm(33, 37, 9, 2, Structure(10, 1, 5),
         epilogue=Epilogue("float16", float_bias=True, activation="gelu")),
    Spmm(61, 65, 150, 8, Structure(224, 28, 80), "uint4", "int16", Epilogue("float32")),
    Spmm(61, 65, 150, 4, Structure(224, 28, 80), "float16", "float16", Epilogue("float16")),
    Spmm(61, 72, 150, 8, Structure(224, 28, 80), "int16", "uint16", Epilogue("int8", "float32")),
    Spmm(19, 48, 1100, 8, Structure(640, 224, 512)),
    Spmm(150, 144, 150, 16, Structure(256, 56, 96), "uint8", epilogue=Epilogue("uint8", "int8")),
    Spmm(33, 48, 8192, 16, Structure(512, 160, 320)),
    Spmm(300, 256, 300, 128, Structure(256, 128, 160), epilogue=Epilogue("int32")),
    Spmm(150, 144, 150, 32, Structure(256, 56, 96), "bfloat16", "bfloat16", Epilogue("float16")),
    Spmm(150, 160, 150, 32, Structure(256, 56, 96), "uint4", "int16", Epilogue("int8", "uint8")),
    Spmm(260, 192, 200, 64, Structure(320, 80, 128), "int4", "uint8", Epilogue("float16")),
    Sddmm(61, 150, 64, 8, Structure(224, 28, 80)),
    Sddmm(61, 150, 200, 4, Structure(224, 28, 80), "uint8", "int8", "float16", 16),
    Sddmm(33, 40, 66, 2, Structure(96, 5, 16), "int16", "uint16", "float32", 8),
    Sddmm(61, 150, 264, 8, Structure(224, 28, 80), "int4", "uint4"),
    Sddmm(61, 150, 75, 8, Structure(224, 28, 80), "float16", "float16", "float16", 32),
    Sddmm(9, 5, 99, 8, Structure(0, 0, 0), "bfloat16", "bfloat16", "float32"),
    Gemm(70, 120, 200, sparsity=SINGLE),
    Gemm(70, 117, 201, "float32", "float32", Epilogue("float32"), sparsity=SINGLE),
    FloatGemm(70, 120, 200, weight_dtype="float16", sparsity=SINGLE),
    Gemm(100, 160, 120, sparsity=BESIDE),
    FloatGemm(100, 160, 120, weight_dtype="float16", sparsity=BESIDE),
    Gemm(70, 100, 160, sparsity=Sparsity.two_four()),
    FloatGemm(200, 96, 136, weight_dtype="float16", sparsity=Sparsity.two_four()),
    Gemm(70, 100, 160, epilogue=Epilogue("uint8", "int8", True), sparsity=Sparsity.two_four()),
    Gemm(70, 100, 150, sparsity=TILES),
    Gemm(70, 100, 160, sparsity=TILES),
    FloatGemm(70, 100, 160, weight_dtype="float16", sparsity=TILES),
    Conv2d(2, 6, 7, 32, 100, 3, 3, padding=(1, 1, 1, 1), sparsity=TILES),
    FloatConv2d(2, 6, 7, 32, 100, 3, 3, padding=(1, 1, 1, 1), sparsity=TILES),
    Gemm(200, 90, 300, "uint8", epilogue=Epilogue("uint8", "int8", True), sparsity=TILES),
    FloatGemm(70, 100, 150, weight_dtype="float16", bias=True, sparsity=TILES),
    Gemm(200, 90, 304, "uint8", epilogue=Epilogue("uint8", "int8", True), sparsity=INSIDE),
    FloatGemm(70, 100, 160, weight_dtype="float16", sparsity=INSIDE),
    Gemm(144, 160, 160, sparsity=Sparsity("vectors", 32, 160, Structure(256, 56, 96))),
    Gemm(64, 128, 160, "uint8", epilogue=Epilogue("uint8"),
         sparsity=Sparsity("vectors", 8, 128, Structure(224, 28, 80))),
    SparseAttention(1, 2, 61, 300, 64, Structure(224, 28, 80), softmax_bits=16),
    SparseAttention(1, 1, 100, 130, 40, Structure(320, 28, 96), "bfloat16", 8, 4),
    SparseAttention(2, 3, 24, 200, 128, Structure(96, 40, 96), order="blhd"),
    Pool2d("max", 2, 15, 15, 32, 3, 3, (2, 2), (1, 1, 1, 1)),
    Pool2d("max", 1, 9, 9, 48, 3, 3, (2, 2), (1, 1, 1, 1), in_dtype="int4", out_dtype="int4"),
    Pool2d("average", 2, 7, 7, 64, 7, 7, requantize=True),
    Add((2, 7, 7, 32)),
    Add((2, 7, 7, 66), "int4", "uint4", "int4"),
    Concat(50, (24, 40), ("uint8", "int8"), (True, False), "int8", "uint8"),
    Concat(49, (16, 24), ("int8", "uint8"), (False, True)),
    Concat(49, (16, 24, 6), ("int4", "uint4", "int4"), (True, True, False), "int4"),
    Quantize(2, 16, 16, 3, 16, 2),
    Quantize(2, 6, 5, 3, 33, out_dtype="int4"),
    Quantize(2, 16, 8, 3, 48, 4, planes=True),
    Dequantize(2, 7, 7, 24),
    Lookup((2, 7, 7, 24)),
    Relayout(8, 5, 6, 48, "NHWCnc", "NHWC", "uint8"),
]  # fmt: skip
