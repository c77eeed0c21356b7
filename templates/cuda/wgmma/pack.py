"""Constants of the wgmma kernels, arranged as these read them."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.borders.bias import bias_rows, border_bias
from autoq.templates.borders.group_biases import group_biases
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
from autoq.templates.epilogue.cuda.short_forms.allowed import boundable
from autoq.templates.epilogue.cuda.short_forms.choice import Operands, ShortForm, short_form
from autoq.templates.epilogue.cuda.short_forms.long_table import (
    MORE_WORDS,
    has_long_table,
    packed_long_table,
)
from autoq.templates.epilogue.cuda.short_forms.words import WORDS
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.workload import Constants


def pack(workload: Conv2d, config: PipelineConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """Weights, bias table, then scale and scalars unless the output is int32.

    Where the epilogue is boundable, the numbers of its short form follow the scalars, then what is
    left of a long table, and a table of scale and bias comes last unless it is uniform.
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
    arrays = [shared_image(tile_rows(packed, order, config.row_bytes)), bias]
    if workload.epilogue.out_dtype == "int32":
        return tuple(arrays)
    scale = np.asarray(constants["scale"], np.float32)
    scalars = np.asarray(constants["scalars"], np.float32)
    small: list[np.ndarray] = []
    found = ShortForm(np.empty(0))
    if boundable(workload.epilogue):
        operands = Operands(workload.in_dtype, weight, table, scale, scalars)
        found = short_form(workload.epilogue, operands)
        small.append(found.numbers)
        arrays[1] = bias = bias + np.int32(found.start)
    if has_long_table(workload.epilogue):
        first, others = packed_long_table(workload.epilogue, constants, found.read)
        constants = {**constants, "table": first}
        small.append(others)
    scales = packed_scales(
        workload.epilogue, constants, lambda one: pad_channels(one, config.block_n), grouped
    )
    arrays += [scales, np.concatenate([packed_scalars(workload.epilogue, constants), *small])]
    if _has_table(workload):
        start = bias[0] if len(bias) == 1 else None
        factor = np.float32(found.factor)
        arrays.append(epilogue_table(factor * scales, start, config.block_n, config.channels))
    return tuple(arrays)


def packs_by(workload: Conv2d, config: PipelineConfig) -> Hashable:
    """What `pack` makes of a configuration: extents of sub-tiles and of the padded weights."""
    total = config.layout(workload).total
    return config.block_n, config.row_bytes, config.channels, total


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
        (WORDS if short else 0) + (MORE_WORDS if has_long_table(workload.epilogue) else 0),
        groups,
    )
    if not _has_table(workload):
        return specs
    words = table_words(config.block_n, rows == 1)
    return (*specs, TensorSpec("table", (channels // config.block_n, words), "int32"))


def _has_table(workload: Conv2d) -> bool:
    """Whether kernels read scale and bias from a table; where they are uniform, limits say all."""
    return boundable(workload.epilogue) and not workload.epilogue.uniform
