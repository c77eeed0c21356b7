"""Attention that two products of activations and the softmax between them come to."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.templates.arrays.table import ENTRIES
from autoq.templates.epilogue import SCALAR_NAMES, Epilogue
from autoq.templates.operators.attention import Attention
from autoq.templates.operators.attention_scalars import ATTENTION_SCALARS, attention_scalars
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.workload import Constants, Workload

_ROWS = {
    "bhmk": "bhld", "bmhk": "blhd", "bhnk": "bhld", "bnhk": "blhd", "bhkn": "bhld",
    "bkhn": "blhd", "bhmn": "bhld", "bmhn": "blhd",
}  # fmt: skip
_NAMED_AXES = "bhmn"


@dataclass(frozen=True)
class Rounding:
    """A quantisation that is undone at once: `(clamp(rint(x / step), low, high)) * step`.

    zero_point: of the integers, which the bounds leave out.
    """

    step: float
    zero_point: int
    low: float = -math.inf
    high: float = math.inf


@dataclass(frozen=True)
class Between:
    """What stands between the sums of scores and the factor of values.

    scores: how integers that the first product writes become numbers, None for floats; factor:
    what they are multiplied with; mask: the shape of what is added then, in the axes of `whole`,
    that of all scores; masked: a rounding behind it, or without a mask behind the factor; shares:
    the one behind the softmax, None for floats; dtype: what the softmax ends in.
    """

    whole: tuple[int, ...]
    dtype: str
    scores: Rounding | None = None
    factor: float = 1.0
    mask: tuple[int, ...] | None = None
    constant_mask: bool = False
    masked: Rounding | None = None
    shares: Rounding | None = None


def attention_of(
    first: tuple[Workload, Constants], between: Between, second: tuple[Workload, Constants]
) -> tuple[Attention, dict[str, Any]] | None:
    """The attention of two products, with its constants but for a mask; None if it is none.

    first, second: the products' workloads and constants.
    """
    scores, values = first[0], second[0]
    if not (isinstance(scores, BatchedGemm) and isinstance(values, BatchedGemm)):
        return None
    found = _shape_of(scores, between, values)
    plain = values.epilogue == Epilogue(values.epilogue.out_dtype)
    epilogue = Epilogue(scores.epilogue.out_dtype, table=scores.epilogue.table)
    if found is None or not plain or scores.epilogue != epilogue:
        return None
    given = [dict(zip(SCALAR_NAMES, map(float, c["scalars"]), strict=True))
             for c in (first[1], second[1])]  # fmt: skip
    scales = [float(np.asarray(c["scale"]).reshape(-1)[0]) if "scale" in c else math.nan
              for c in (first[1], second[1])]  # fmt: skip
    if not all(map(math.isfinite, scales)) or not scales[0] * between.factor > 0:
        return None
    if found.floating:
        constants = _of_floats(between, given, scales)
    else:
        constants = _of_bytes(found, between, given, scales, first[1], second[1])
        zeros = {"q": (first[1], "x"), "k": (first[1], "other"), "v": (second[1], "other")}
        for name, (source, role) in zeros.items():
            if constants is not None:
                constants[f"{name}_zero_point"] = int(source.get(f"{role}_zero_point", 0))
    return None if constants is None else without_idle_rescaling(found, constants)


def without_idle_rescaling(
    work: Attention, constants: dict[str, Any]
) -> tuple[Attention, dict[str, Any]]:
    """The same steps without a second rounding that leaves every integer as it is.

    A power of two between two quantisations, as the root of 64 values, often comes to one.
    """
    if not work.rescaled_scores:
        return work, constants
    s = dict(zip(ATTENTION_SCALARS, map(float, constants["scalars"]), strict=True))
    q = np.arange(s["scores_low"], s["scores_high"] + 1)
    if len(q) > ENTRIES:
        return work, constants
    low, high = max(s["scores_low"], s["rescaled_low"]), min(s["scores_high"], s["rescaled_high"])
    rescaled = np.clip(np.rint(q * s["rescale"]), s["rescaled_low"], s["rescaled_high"])
    if not np.array_equal(rescaled, np.clip(q, low, high)):
        return work, constants
    s |= {"scores_low": low, "scores_high": high}
    s |= {"rescale": 1.0, "rescaled_low": low, "rescaled_high": high}
    scalars = {"scalars": attention_scalars(**s)}
    return dataclasses.replace(work, rescaled_scores=False), constants | scalars


def _shape_of(scores: BatchedGemm, between: Between, values: BatchedGemm) -> Attention | None:
    """Attention of both products' extents, orders and types; None where they do not fit."""
    fits = (
        scores.other_order.endswith("k")
        and values.other_order.endswith("n")
        and (scores.y_order, values.x_order) == ("bhmn", "bhmk")
        and (scores.m, scores.n, scores.k) == (values.m, values.k, values.n)
        and scores.products == values.products
        and between.dtype == values.in_dtype
        and scores.floating == values.floating
    )
    if not fits:
        return None
    pairs = _pairs(scores, values)
    axes = None if pairs is None else _mask_axes(between, pairs, scores)
    if pairs is None or axes is None:
        return None
    orders = (scores.x_order, scores.other_order, values.other_order, values.y_order)
    try:
        return Attention(
            *pairs, scores.m, scores.n, scores.k,
            scores.in_dtype, scores.other_dtype, values.other_dtype, values.epilogue.out_dtype,
            *(_ROWS[order] for order in orders), axes,
            bool(axes) and between.constant_mask, False,
            *_steps(between, bool(axes), scores.epilogue.table),
        )  # fmt: skip
    except InputError:  # types that only the two products have
        return None


def _steps(between: Between, has_mask: bool, has_table: bool) -> tuple[bool, bool, bool]:
    """Whether scores are quantised, rescaled, and quantised behind a mask."""
    masked, rounded = between.masked is not None, between.scores is not None
    if has_mask:
        return rounded, has_table, masked
    return rounded or masked, has_table or (rounded and masked), False


def _pairs(scores: BatchedGemm, values: BatchedGemm) -> tuple[int, int] | None:
    """(batch, heads) of both: where one's matrices lie one behind the other it is the other's."""
    one, other = (scores.batch, scores.heads), (values.batch, values.heads)
    if one == other:
        return one
    for work, pairs in ((scores, other), (values, one)):
        orders = (work.x_order, work.other_order, work.y_order)
        if all(order.startswith("bh") for order in orders):
            return pairs
    return None


def _mask_axes(between: Between, pairs: tuple[int, int], scores: BatchedGemm) -> str | None:
    """`Attention.mask_axes` of the mask: "" without one, None where its axes are none of these."""
    whole = between.whole
    if math.prod(whole) != scores.products * scores.m * scores.n or whole[-1] != scores.n:
        return None
    if between.mask is None:
        return ""
    if len(whole) < 2 or whole[-2] != scores.m:
        return None
    mask = (1,) * (len(whole) - len(between.mask)) + between.mask
    for split in range(len(whole) - 1):
        parts = (slice(0, split), slice(split, len(whole) - 2), slice(-2, -1), slice(-1, None))
        extents = [math.prod(whole[part]) for part in parts]
        if extents != [*pairs, scores.m, scores.n]:
            continue
        own = [math.prod(mask[part]) for part in parts]
        broadcast = [one in (1, size) for one, size in zip(own, extents, strict=True)]
        if all(broadcast) and own[-1] == scores.n:
            pairs_of = zip(_NAMED_AXES, own, strict=True)
            return "".join(axis for axis, size in pairs_of if size > 1 or axis == "n")
    return None


def _of_floats(
    between: Between, given: list[dict[str, float]], scales: list[float]
) -> dict[str, Any] | None:
    unbounded = all(_unbounded(scalars) for scalars in given)
    rounds = between.scores or between.masked or between.shares
    scale = scales[0] * between.factor
    if not unbounded or rounds or scales[1] != 1:
        return None
    return {"scalars": attention_scalars(scale=scale)}


def _of_bytes(
    found: Attention, between: Between, given: list[dict[str, float]], scales: list[float],
    before: Constants, behind: Constants,
) -> dict[str, Any] | None:  # fmt: skip
    """The scalars of the steps, None where a step is none that the kernel has."""
    first, last = given
    shares = between.shares
    if shares is None or shares.low > 0 or shares.zero_point != behind.get("x_zero_point", 0):
        return None
    values = {"shares_step": shares.step, "shares_most": min(shares.high, 255.0)}
    scores = _of_scores(between, first, scales[0], before)
    if scores is None:
        return None
    values.update(scores)
    if found.out_dtype == "float32":
        if not _unbounded(last):
            return None
    else:
        values.update({name: last[name] for name in ("low", "high", "zero_point")})
    return {"scalars": attention_scalars(out_scale=scales[1], **values)}


def _of_scores(
    between: Between, first: dict[str, float], scale: float, constants: Constants
) -> dict[str, float] | None:
    """The scalars from sums to what the softmax reads, None where these steps are none of a kernel.

    first: the scalars of the product's epilogue; constants: of the product.
    """
    rounded, masked = between.scores, between.masked
    if rounded is None:
        if not _unbounded(first):
            return None
        values = {"scale": scale * between.factor}
    else:
        values = {"scale": scale, "scores_low": first["low"], "scores_high": first["high"],
                  "scores_step": rounded.step * between.factor}  # fmt: skip
        if "table" in constants:
            table = constants["table"].astype(int) - rounded.zero_point
            rescaled = rescaling(table, constants["table"].dtype, int(first["zero_point"]))
            if rescaled is None:
                return None
            values.update(rescaled)
        elif rounded.zero_point != first["zero_point"]:
            return None
    if masked is None:
        return values
    if between.mask is not None:
        ends = {"masked_low": masked.low, "masked_high": masked.high, "masked_step": masked.step}
        return {**values, **ends}
    if rounded is None:
        values["scale"] /= masked.step
        ends = {"scores_low": masked.low, "scores_high": masked.high}
    elif "rescale" in values:
        return None
    else:
        values["rescale"] = values["scores_step"] / masked.step
        ends = {"rescaled_low": masked.low, "rescaled_high": masked.high}
    return {**values, **ends, "scores_step": masked.step}


def _unbounded(scalars: Mapping[str, float]) -> bool:
    return (scalars["low"], scalars["high"]) == (-math.inf, math.inf)


def rescaling(table: np.ndarray, dtype: np.dtype, zero_point: int) -> dict[str, float] | None:
    """The factor and bounds that give every entry of a table; None where there are none.

    table: integers [256], less their zero point, by the bytes of integers of `dtype`, whose zero
    point is given. `clamp(rint(q * rescale), rescaled_low, rescaled_high)` is the entry of each q
    less that zero point.
    """
    q = (np.arange(ENTRIES).astype(np.uint8).view(dtype).astype(int) - zero_point).astype(float)
    low, high = table.min(), table.max()
    inside = (low < table) & (table < high) & (q != 0)
    ends = np.stack([(table - 0.5)[inside] / q[inside], (table + 0.5)[inside] / q[inside]])
    if not inside.any():
        return None
    factor = np.float32((ends.min(0).max() + ends.max(0).min()) / 2)
    found = np.clip(np.rint(q * float(factor)), low, high)
    if not np.array_equal(found, table):
        return None
    names = ("rescale", "rescaled_low", "rescaled_high")
    return dict(zip(names, map(float, (factor, low, high)), strict=True))
