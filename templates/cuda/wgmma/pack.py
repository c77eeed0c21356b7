"""Constants of the wgmma kernels, arranged as these read them."""

from __future__ import annotations

import numpy as np

from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.arrays.table import ENTRIES
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
from autoq.templates.epilogue.cuda.short_forms.bounds import MAGIC_BITS, largest_total, limits
from autoq.templates.epilogue.cuda.short_forms.conversion import conversion_limits
from autoq.templates.epilogue.cuda.short_forms.one_scale import one_scale
from autoq.templates.epilogue.cuda.short_forms.read_sums import (
    long_table,
    may_be_read,
    read_limits,
)
from autoq.templates.epilogue.cuda.short_forms.words import (
    CONVERTED,
    IS_CONVERTED,
    IS_READ,
    WORDS,
    words_of,
)
from autoq.templates.epilogue.cuda.values.requantisation import (
    boundable,
    convertible,
    readable,
)
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.workload import Constants


def pack(workload: Conv2d, config: PipelineConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """Weights, bias table, then scale and scalars unless the output is int32.

    Where the epilogue is boundable, limits follow the scalars, and a table of scale and bias comes
    last unless it is uniform.
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
    constants = dict(constants)
    small: list[np.ndarray] = []
    sign = np.float32(1)
    if boundable(workload.epilogue):
        numbers, sign = _short_form(workload, weight, table, scale, scalars)
        small.append(numbers)
        if numbers[0] in (IS_CONVERTED, IS_READ):
            arrays[1] = bias = bias + np.int32(MAGIC_BITS)
        if workload.epilogue.table:
            least = INTEGER_RANGE[workload.epilogue.out_dtype][0]
            shift = int(scalars[7]) - least if numbers[0] == IS_READ else None
            image = long_table(np.asarray(constants["table"], workload.epilogue.out_dtype), shift)
            constants["table"] = image[:ENTRIES].view(workload.epilogue.out_dtype)
            small.append(image[ENTRIES:].view(np.float32))
    scales = packed_scales(
        workload.epilogue, constants, lambda one: pad_channels(one, config.block_n), grouped
    )
    arrays += [scales, np.concatenate([packed_scalars(workload.epilogue, constants), *small])]
    if _has_table(workload):
        start = bias[0] if len(bias) == 1 else None
        arrays.append(epilogue_table(sign * scales, start, config.block_n, config.channels))
    return tuple(arrays)


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
        (WORDS if short else 0) + (ENTRIES // 4 if short and workload.epilogue.table else 0),
        groups,
    )
    if not _has_table(workload):
        return specs
    words = table_words(config.block_n, rows == 1)
    return (*specs, TensorSpec("table", (channels // config.block_n, words), "int32"))


def _has_table(workload: Conv2d) -> bool:
    """Whether kernels read scale and bias from a table; where they are uniform, limits say all."""
    return boundable(workload.epilogue) and not workload.epilogue.uniform


def _short_form(
    workload: Conv2d, weight: np.ndarray, bias: np.ndarray, scale: np.ndarray, scalars: np.ndarray
) -> tuple[np.ndarray, np.float32]:
    """What `conversion.py` or else `bounds.py` says, and the sign of the scales in the table.

    Of a uniform epilogue what `one_scale.py` says.
    """
    if workload.epilogue.uniform:
        largest = float(largest_total(workload.in_dtype, weight, bias).max())
        numbers = one_scale(workload.epilogue.out_dtype, float(scale[0]), largest)
        return words_of(numbers), np.float32(1)
    largest = largest_total(workload.in_dtype, weight, bias)
    if convertible(workload.epilogue) and not workload.epilogue.table:
        found = conversion_limits(workload.epilogue, tuple(map(float, scalars)))
        most = 512.0
        if workload.epilogue.requantize_before_add:
            most = max(abs(float(scalars[0])), abs(float(scalars[1]))) + 1
        if found is not None and may_be_read(scale, largest, most):
            numbers = np.array([found], CONVERTED)
            return words_of(numbers), numbers["sign"][0]
    if readable(workload.epilogue):
        read = read_limits(workload.epilogue, scale, largest, scalars)
        if read is not None:
            return words_of(read[0]), np.float32(read[1])
    numbers = limits(workload.epilogue, workload.in_dtype, weight, bias, scale, scalars)
    return numbers, np.float32(1)
