"""Weights of the mixed-input product, arranged as the registers of wgmma's A take them."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from autoq.templates.arrays.element import element
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.memory.swizzle import shared_image
from autoq.templates.cuda.mixed.conversion import Conversion
from autoq.templates.cuda.mixed.row_scale import row_scale
from autoq.templates.cuda.mixed.wgmma.config import STEP_K
from autoq.templates.cuda.mixed.wgmma.plan import MixedPlan
from autoq.templates.cuda.mixed.widening import SUBNORMAL_SCALES, Widening
from autoq.templates.workload import Constants


def packed(plan: MixedPlan) -> tuple[TensorSpec, ...]:
    """What `pack` gives: tiles of weights, what is taken from each row, scale and bias."""
    work = plan.workload
    specs, rows = [TensorSpec("weight", (plan.weight_bytes,), "uint8")], (plan.weight_rows,)
    if plan.rows_shifted:
        specs.append(TensorSpec("taken", rows, "uint32"))
    if plan.rows_scaled:
        specs.append(TensorSpec("scale", rows, "float32"))
    if work.bias:
        specs.append(TensorSpec("bias", rows, "float32"))
    return tuple(specs)


def pack(plan: MixedPlan, constants: Constants) -> tuple[np.ndarray, ...]:
    """The constants of a workload as the kernel reads them, those of a batch one by one."""
    batch = plan.workload.batch
    if batch == 1:
        return _packed_product(plan, constants)
    of_products = [
        _packed_product(plan, {name: array[i] for name, array in constants.items()})
        for i in range(batch)
    ]
    return tuple(np.concatenate(arrays) for arrays in zip(*of_products, strict=True))


def packs_by(plan: MixedPlan) -> Hashable:
    """What `pack` asks of a plan besides its workload: padded extents and how weights are widened.

    These follow from most of the knobs, and are the same for most of their values.
    """
    return plan.padded_n, plan.padded_k, plan.config.group_scale, plan.config.widening


def _packed_product(plan: MixedPlan, constants: Constants) -> tuple[np.ndarray, ...]:
    work = plan.workload
    weight = np.asarray(constants["weight"])
    rows = plan.padded_n - work.n
    if not work.quantised:
        weight = np.pad(weight, [(0, rows), (0, plan.padded_k - work.k)])
        arrays = [_float_tiles(weight, plan.step_k)]
    else:
        arrays = [_integer_tiles(plan, weight, constants)]
    if plan.rows_shifted:
        zeros = constants["zero_point"] if work.zero_points else np.zeros(work.n)
        zeros = np.pad(np.asarray(zeros).reshape(work.n).astype(np.int32), (0, rows))
        taken = plan.conversion.taken_of(zeros, _second_rows(plan.padded_n)).astype(np.uint32)
        arrays.append(taken | taken << 16)
    if plan.rows_scaled:
        scale = np.asarray(constants["scale"], np.float32)
        of_units = row_scale(work, scale) / np.float32(plan.conversion.unit)
        arrays.append(np.pad(of_units, (0, rows)))
    if work.bias:
        arrays.append(np.pad(np.asarray(constants["bias"], np.float32), (0, rows)))
    return tuple(map(np.ascontiguousarray, arrays))


def _second_rows(count: int) -> np.ndarray:
    """Whether each row is one of the upper eight of sixteen."""
    return np.arange(count) % 16 >= 8


def _float_tiles(weight: np.ndarray, step_k: int) -> np.ndarray:
    """Tiles [64, step_k] of floats, 128 bytes a row, as TMA would swizzle them, uint8."""
    n, k = weight.shape
    tiles = weight.reshape(n // 64, 64, k // step_k, step_k).transpose(0, 2, 1, 3)
    return shared_image(np.ascontiguousarray(tiles).view(np.int8).reshape(-1, 128)).view(np.uint8)


def _integer_tiles(plan: MixedPlan, weight: np.ndarray, constants: Constants) -> np.ndarray:
    """Tiles [64, 64] in the order of threads, and behind each what its groups need, uint8."""
    conversion, work = plan.conversion, plan.workload
    stored = np.pad(
        conversion.stored(weight), [(0, plan.padded_n - work.n), (0, plan.padded_k - work.k)]
    )
    # [blocks, warp, half of 16 rows, row, steps, k 16, half of 16 k, thread of 4, value of 2]
    parts = stored.reshape(plan.padded_n // 64, 4, 2, 8, plan.padded_k // 64, 4, 2, 4, 2)
    blocks, steps = parts.shape[0], parts.shape[4]
    if conversion.nibbles:
        values = _nibbles(conversion, parts)
    else:
        halves = parts.reshape(*parts.shape[:5], 2, 2, *parts.shape[6:])
        # Masks take every second byte of a word for a register.
        word = (9, 2) if conversion.widening is Widening.MASK else (2, 9)
        values = np.ascontiguousarray(halves.transpose(0, 4, 5, 1, 3, 8, 6, 7, *word))
    values = values.reshape(blocks, steps, -1)
    if not conversion.groups:
        return values.reshape(-1)
    parts = [values]
    if conversion.group_words:
        parts.append(_group_words(plan, constants))
    if conversion.scales_sums:
        scale = np.asarray(constants["scale"], np.float32) / np.float32(conversion.unit)
        parts.append(_by_step(plan, scale))
    lying = [part.view(np.uint8).reshape(blocks, steps, -1) for part in parts]
    return np.concatenate(lying, axis=-1).reshape(-1)


def _nibbles(conversion: Conversion, parts: np.ndarray) -> np.ndarray:
    """Pairs of the nibbles of words, of which each has a thread's values of k = 16.

    The pairs of the four registers come one behind the other, or for a table the values themselves,
    whose signs lie in the nibbles where PRMT finds those of four at a time.
    """
    if conversion.widening is not Widening.TABLE:
        ordered = np.ascontiguousarray(parts.transpose(0, 4, 1, 3, 7, 5, 8, 6, 2)).reshape(-1, 8)
    else:
        values = np.ascontiguousarray(parts.transpose(0, 4, 1, 3, 7, 5, 6, 2, 8)).reshape(-1, 8)
        ordered = (values & 7) | (values & 8)[:, [4, 0, 5, 1, 6, 2, 7, 3]]
    return ordered[:, 0::2] | ordered[:, 1::2] << 4


def _group_words(plan: MixedPlan, constants: Constants) -> np.ndarray:
    """For each block, step, group and row what is taken away, above the group's scale, uint32.

    Subnormal nibbles take the scale alone, a power of 2 larger, in both halves of the word.
    """
    conversion, work = plan.conversion, plan.workload
    scale = np.asarray(constants["scale"], np.float32)
    zeros = constants["zero_point"] if work.zero_points else np.zeros(scale.shape)
    second = _second_rows(work.n)[:, None]
    share = scale / row_scale(work, scale)[:, None]
    if conversion.subnormal:
        first_scale, second_scale = SUBNORMAL_SCALES
        share *= np.where(second, np.float32(second_scale), np.float32(first_scale))
        halves = share.astype(np.float16).view(np.uint16).astype(np.uint32)
        return _by_step(plan, halves | halves << 16)
    taken = conversion.taken_of(np.asarray(zeros).astype(np.int32), second)
    words = taken.astype(np.uint32) << 16
    if conversion.scales_weights:
        words |= share.astype(element(work.in_dtype).dtype).view(np.uint16)
    return _by_step(plan, words)


def _by_step(plan: MixedPlan, of_groups: np.ndarray) -> np.ndarray:
    """Words of rows and groups [n, groups] as [blocks, steps, groups of a step, 64 rows].

    A group longer than a step counts for each of its steps; rows and k beyond the weight have 0.
    """
    work = plan.workload
    columns = plan.k_steps * plan.conversion.groups
    repeated = np.repeat(of_groups, max(work.group // STEP_K, 1), axis=1)
    pad = [(0, plan.padded_n - work.n), (0, columns - repeated.shape[1])]
    by_block = np.pad(repeated, pad).reshape(plan.padded_n // 64, 64, columns)
    return np.ascontiguousarray(by_block.transpose(0, 2, 1))
