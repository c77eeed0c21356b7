"""Descriptions of the constants of the tensor-core convolutions, which pad channels to tiles."""

from __future__ import annotations

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.epilogue.cuda.parameters.scalars import scalar_words, scale_words
from autoq.templates.epilogue.specification import Epilogue


def product_specs(
    epilogue: Epilogue,
    weight: tuple[int, ...],
    bias: tuple[int, ...],
    channels: int,
    limits: int = 0,
    groups: int = 1,
) -> tuple[TensorSpec, ...]:
    """Weight int8 and bias int32 of these shapes, then scale and scalars unless int32 is stored.

    channels: of the output, padded to tiles; limits: words behind `epilogue.packed_scalars`;
    groups: of scales along the reduction.
    """
    sums = TensorSpec("weight", weight, "int8"), TensorSpec("bias", bias, "int32")
    if epilogue.out_dtype == "int32":
        return sums
    scalars = (scalar_words(epilogue) + limits,)
    return (
        *sums,
        TensorSpec("scale", (scale_words(epilogue, channels, groups),), "float32"),
        TensorSpec("scalars", scalars, "float32"),
    )
