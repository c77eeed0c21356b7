"""Models of products of matrices."""

from __future__ import annotations

from onnx_models.makers import model, node, normal

LINEAR = {
    "gemm": model(
        [node("Gemm", "x w c", alpha=0.5, beta=2.0)], {"x": ((5, 8), "float32")},
        {"w": normal(8, 7), "c": normal(7)},
    ),
    "gemm_transposed": model(
        [node("Gemm", "x w c", transA=1, transB=1)], {"x": ((8, 5), "float32")},
        {"w": normal(7, 8), "c": normal(1, 7)},
    ),
    "gemm_full_bias": model(
        [node("Gemm", "x w c")], {"x": ((5, 8), "float32")},
        {"w": normal(8, 7), "c": normal(5, 7)},
    ),
    "gemm_dynamic": model(
        [node("Gemm", "x w c")],
        {"x": ((5, 8), "float32"), "w": ((8, 7), "float32"), "c": ((7,), "float32")},
    ),
    "matmul": model([node("MatMul", "x w")], {"x": ((2, 3, 8), "float32")}, {"w": normal(8, 7)}),
    "matmul_batched": model(
        [node("MatMul", "x w")],
        {"x": ((2, 3, 4, 8), "float32"), "w": ((3, 8, 5), "float32")},
    ),
    "matmul_left": model([node("MatMul", "w x")], {"x": ((2, 8, 3), "float32")},
                         {"w": normal(7, 8)}),
    "matmul_one_matrix": model(
        [node("MatMul", "x w")], {"x": ((2, 3, 8), "float32"), "w": ((1, 8, 5), "float32")},
    ),
    "matmul_one_constant": model([node("MatMul", "x w")], {"x": ((3, 8), "float32")},
                                 {"w": normal(1, 1, 8, 5)}),
    "matmul_by_a_vector": model(
        [node("MatMul", "x v", "a"), node("MatMul", "v z", "b"), node("MatMul", "v v", "c"),
         node("Sum", "a b c")],
        {"x": ((2, 3, 8), "float32"), "z": ((2, 8, 3), "float32"), "v": ((8,), "float32")},
    ),
    "matmul_of_a_vector": model([node("MatMul", "x w")], {"x": ((8,), "float32")},
                                {"w": normal(8, 5)}),
    "flatten_gemm": model(
        [node("Conv", "x k", "a", pads=[1, 1, 1, 1]), node("Relu", "a", "r"),
         node("Flatten", "r", "f"), node("Gemm", "f w c")],
        {"x": ((2, 6, 9, 10), "float32")},
        {"k": normal(4, 6, 3, 3), "w": normal(360, 7) * 0.1, "c": normal(7)},
    ),
}  # fmt: skip
