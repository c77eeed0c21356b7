"""Constants of the wgmma kernels, arranged as these read them."""

from __future__ import annotations

import numpy as np

from autoq.templates.border import bias_rows, border_bias, group_biases
from autoq.templates.cuda.device.memory.swizzle import shared_image
from autoq.templates.cuda.device.weights import (
    ceil_div,
    pack_weight,
    pad_channels,
    row_channels,
    tile_rows,
)
from autoq.templates.cuda.wgmma.config import PipelineConfig
from autoq.templates.epilogue.cuda.fragments.scale_groups import by_columns
from autoq.templates.epilogue.cuda.parameters.epilogue_table import epilogue_table, table_words
from autoq.templates.epilogue.cuda.parameters.packed_specs import product_specs
from autoq.templates.epilogue.cuda.parameters.scalars import packed_scalars, packed_scales
from autoq.templates.epilogue.cuda.short_forms.bounds import largest_total, limits
from autoq.templates.epilogue.cuda.short_forms.conversion import conversion_limits
from autoq.templates.epilogue.cuda.short_forms.one_scale import one_scale_limits
from autoq.templates.epilogue.cuda.short_forms.words import (
    CONVERTED,
    ONE_SCALE,
    WORDS,
    words_of,
)
from autoq.templates.epilogue.cuda.values.requantisation import (
    boundable,
    convertible,
    scalable,
)
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Constants

_LARGEST_TOTAL = 1 << 29
"""Sums up to which the bits that they are added to stay those of a positive float."""


def pack(workload: Conv2d, config: PipelineConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """Weights, bias table, then scale and scalars unless the output is int32.

    Where the epilogue is boundable, limits follow the scalars, and a table of scale and bias comes
    last.
    """
    weight = np.asarray(constants["weight"]).reshape(workload.weight_shape)
    layout = config.layout(workload)
    table = border_bias(
        workload, weight, np.asarray(constants["bias"]), int(constants.get("x_zero_point", 0))
    )
    bias = pad_channels(table, config.block_n)
    bias = np.ascontiguousarray(bias.reshape(-1, bias.shape[-1]))
    packed = pack_weight(weight, layout, config.block_n)
    order = row_channels(config.block_n, config.channels)

    def grouped(values: np.ndarray) -> np.ndarray:
        return by_columns(pad_channels(values, config.block_n), config.block_n, order)

    if workload.epilogue.scale_group:
        zero_point = int(constants.get("x_zero_point", 0))
        bias = grouped(group_biases(workload, weight, np.asarray(constants["bias"]), zero_point))
    if workload.epilogue.dynamic:
        columns = weight.reshape(len(weight), -1).sum(axis=1, dtype=np.int32)
        bias = np.concatenate([bias, pad_channels(columns, config.block_n).reshape(1, -1)])
    image = shared_image(tile_rows(packed, order, config.row_bytes))
    if workload.epilogue.out_dtype == "int32":
        return image, bias
    scale = np.asarray(constants["scale"], np.float32)
    scalars = np.asarray(constants["scalars"], np.float32)
    small: list[np.ndarray] = []
    if boundable(workload.epilogue):
        numbers, sign, start = _short_form(workload, weight, table, scale, scalars)
        small.append(numbers)
        bias = bias + start
    scales = packed_scales(
        workload.epilogue, constants, lambda one: pad_channels(one, config.block_n), grouped
    )
    scalars = np.concatenate([packed_scalars(workload.epilogue, constants), *small])
    if not _has_table(workload):
        return image, bias, scales, scalars
    starts = bias[0] if len(bias) == 1 else None
    starts_and_scales = epilogue_table(sign * scales, starts, config.block_n, config.channels)
    return image, bias, scales, scalars, starts_and_scales


def packed(workload: Conv2d, config: PipelineConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    layout = config.layout(workload)
    channels = ceil_div(workload.k, config.block_n) * config.block_n
    rows = bias_rows(workload)
    short = boundable(workload.epilogue)
    groups, n_tiles = workload.scale_groups, channels // config.block_n
    specs = product_specs(
        workload.epilogue,
        (channels * layout.total,),
        (n_tiles, groups, config.block_n)
        if workload.epilogue.scale_group
        else (rows + workload.epilogue.dynamic, channels),
        channels,
        WORDS if short else 0,
        groups,
    )
    if not _has_table(workload):
        return specs
    words = table_words(config.block_n, rows == 1)
    return (*specs, TensorSpec("table", (channels // config.block_n, words), "int32"))


def _has_table(workload: Conv2d) -> bool:
    """Whether kernels read a table of scale and bias; where these are uniform, limits say all."""
    return boundable(workload.epilogue) and not workload.epilogue.uniform


def _short_form(
    workload: Conv2d, weight: np.ndarray, bias: np.ndarray, scale: np.ndarray, scalars: np.ndarray
) -> tuple[np.ndarray, np.float32, np.int32]:
    """The words of the shortest form that is exact.

    Besides the sign of the scales in the table, and what accumulators start from beside their bias.
    """
    epilogue, in_dtype = workload.epilogue, workload.in_dtype
    if scalable(epilogue) and np.all(scale == scale[0]):
        *_, low, high, zero_point = map(float, scalars)
        found = None
        if largest_total(in_dtype, weight, bias).max() < _LARGEST_TOTAL:
            found = one_scale_limits(epilogue.out_dtype, float(scale[0]), low, high, zero_point)
        if found is None and epilogue.uniform:
            found = np.zeros(1, ONE_SCALE)
            found["scale"] = scale[0]
        if found is not None:
            return words_of(found), np.float32(1), found["start"][0]
    if convertible(epilogue):
        converted = conversion_limits(epilogue, tuple(map(float, scalars)))
        if converted is not None:
            numbers = np.array([converted], CONVERTED)
            return words_of(numbers), numbers["sign"][0], np.int32(0)
    bounded = limits(epilogue, in_dtype, weight, bias, scale, scalars)
    return bounded, np.float32(1), np.int32(0)
