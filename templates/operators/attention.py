"""Attention: scores of queries and keys, their softmax, and the values it weighs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.templates.arrays.element import element
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.field_types import require_positive
from autoq.templates.operators.attention_scalars import ATTENTION_SCALARS, attention_scalars
from autoq.templates.operators.batched_gemm import LONGEST_SUM
from autoq.templates.operators.dynamic_quantize import OF_RESULT, DynamicQuantize
from autoq.templates.oracle.attention import attention_of_bytes, attention_of_floats
from autoq.templates.oracle.float_sums import lost_share
from autoq.templates.oracle.random_arrays import bounds, random_array
from autoq.templates.oracle.threads import in_threads
from autoq.templates.target import Target
from autoq.templates.workload import Arrays, Constants, Tolerance, Workload

_BYTES, _FLOATS = ("int8", "uint8"), ("float16", "bfloat16", "float32")
_ORDERS = ("bhld", "blhd")
_MASK_AXES = ("", "n", "mn", "bn", "bmn", "hn", "hmn", "bhn", "bhmn")
# Of random workloads: the standard deviation of scores, and of their integers.
_SPREAD, _INTEGER_SPREAD = 3.0, 45.0


@dataclass(frozen=True)
class Attention(Workload, operator="attention"):
    """`softmax(scale * q k^T + mask) v` for each of `batch * heads` pairs.

    q and y hold `queries` rows, k and v `keys` rows, all of `depth` values. An order says how an
    array lies in memory: "bhld" is [batch, heads, rows, depth], "blhd" [batch, rows, heads, depth].

    mask_axes: the axes of a float32 array that is added to scores, those whose extent is not 1: of
    b(atch), h(eads), m (queries) and n (keys), which is one of them; "" without a mask. The mask is
    an input, or with `constant_mask` a constant. causal: query i sees keys 0 to i + keys - queries.

    Floats: q, k and v are float16, bfloat16 or float32, y is of that type or float32. Scores and
    their softmax are float32. Of float32 y may be uint8 too: it is then quantised by the range of
    all of it, and its scale and zero point are further outputs, as of `DynamicQuantize`.

    Bytes: q, k and v are int8 or uint8, y is of bytes or float32. Every step is float32, the sums
    of products and what is rounded to an integer of them are exact, and `rint` rounds half to even:

    - `s = float(sum (q - q_zero_point) * (k - k_zero_point)) * scale`.
    - `quantised_scores`: `s = clamp(rint(s), scores_low, scores_high)`, with `rescaled_scores`
      `s = clamp(rint(s * rescale), rescaled_low, rescaled_high)`, then `s = s * scores_step`.
    - with a mask: `s = s + mask`.
    - `quantised_masked`: `s = clamp(rint(s / masked_step), masked_low, masked_high) *
      masked_step`.
    - `p = min(rint(softmax(s) / shares_step), shares_most)`, of 0 to 255: a share less its zero
      point, whatever the model stores it as.
    - `y = float(sum p * (v - v_zero_point)) * out_scale`, and for bytes
      `clamp(rint(y), low, high) + zero_point`.

    The constants are `scalars` (float32 [16], `ATTENTION_SCALARS`), `q_zero_point`, `k_zero_point`
    and `v_zero_point` (ints of the arrays' dtypes, of bytes only), and `mask`. `scale` is positive.
    A query has a key whose score is not -infinity. Raises InputError for extents, orders and types
    that are none of these.
    """

    batch: int
    heads: int
    queries: int
    keys: int
    depth: int
    q_dtype: str = "float16"
    k_dtype: str = "float16"
    v_dtype: str = "float16"
    out_dtype: str = "float16"
    q_order: str = "bhld"
    k_order: str = "bhld"
    v_order: str = "bhld"
    y_order: str = "bhld"
    mask_axes: str = ""
    constant_mask: bool = False
    causal: bool = False
    quantised_scores: bool = False
    rescaled_scores: bool = False
    quantised_masked: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "batch", "heads", "queries", "keys", "depth")
        for name in ("q", "k", "v", "y"):
            order = getattr(self, f"{name}_order")
            if order not in _ORDERS:
                raise InputError(f"{name}_order {order!r}: choose {' or '.join(_ORDERS)}")
        if self.mask_axes not in _MASK_AXES:
            raise InputError(f"mask_axes {self.mask_axes!r}: choose {', '.join(_MASK_AXES[1:])}")
        if self.constant_mask and not self.mask_axes:
            raise InputError("constant_mask needs mask_axes")
        if self.causal and self.keys < self.queries:
            raise InputError(
                f"causal attention of {self.queries} queries to {self.keys} keys: the first "
                "queries would see none"
            )
        self._check_dtypes()

    def _check_dtypes(self) -> None:
        dtypes = (self.q_dtype, self.k_dtype, self.v_dtype)
        if self.floating:
            if len(set(dtypes)) > 1 or dtypes[0] not in _FLOATS:
                raise InputError(f"attention of {', '.join(dtypes)}: floats are of one type")
            more = ("uint8",) if self.q_dtype == "float32" else ()
            if self.out_dtype not in (self.q_dtype, "float32", *more):
                raise InputError(f"attention of {self.q_dtype} gives that or float32")
            if self.quantised_scores or self.rescaled_scores or self.quantised_masked:
                raise InputError(f"scores of {self.q_dtype} are not quantised")
            return
        if any(dtype not in _BYTES for dtype in dtypes):
            raise InputError(f"attention of {', '.join(dtypes)}: choose int8 or uint8, or floats")
        if self.out_dtype not in (*_BYTES, "float32"):
            raise InputError("attention of bytes gives int8, uint8 or float32")
        if self.rescaled_scores and not self.quantised_scores:
            raise InputError("rescaled_scores needs quantised_scores")
        if self.quantised_masked and not self.mask_axes:
            raise InputError("quantised_masked needs mask_axes")
        if max(self.depth, self.keys) > LONGEST_SUM:
            raise InputError(f"sums of at most {LONGEST_SUM} products fit 32 bits")

    @property
    def floating(self) -> bool:
        """Whether the activations are floats."""
        return self.q_dtype not in _BYTES

    @property
    def quantises(self) -> bool:
        """Whether y is quantised by its range."""
        return self.floating and self.out_dtype == "uint8"

    def by_range(self) -> Workload | None:
        floats = self.q_dtype == self.out_dtype == "float32"
        return replace(self, out_dtype="uint8") if floats else None

    @property
    def pairs(self) -> int:
        """How many batches and heads there are together."""
        return self.batch * self.heads

    @property
    def operations(self) -> int:
        """Multiplications and additions of both products; causal ones compute about half."""
        whole = self.queries * self.keys
        if self.causal:
            whole -= self.queries * (self.queries - 1) // 2
        return 4 * self.pairs * whole * self.depth

    def shape_in(self, order: str, rows: int) -> tuple[int, ...]:
        """Extents of an array of so many rows, in their order in memory."""
        sizes = {"b": self.batch, "h": self.heads, "l": rows, "d": self.depth}
        return tuple(sizes[axis] for axis in order)

    @property
    def mask_shape(self) -> tuple[int, ...]:
        """[batch or 1, heads or 1, queries or 1, keys]."""
        sizes = {"b": self.batch, "h": self.heads, "m": self.queries, "n": self.keys}
        return tuple(size if axis in self.mask_axes else 1 for axis, size in sizes.items())

    @property
    def _mask(self) -> TensorSpec:
        return TensorSpec("mask", self.mask_shape, "float32")

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        q = TensorSpec("q", self.shape_in(self.q_order, self.queries), self.q_dtype)
        k = TensorSpec("k", self.shape_in(self.k_order, self.keys), self.k_dtype)
        v = TensorSpec("v", self.shape_in(self.v_order, self.keys), self.v_dtype)
        given = bool(self.mask_axes) and not self.constant_mask
        return (q, k, v, self._mask) if given else (q, k, v)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        y = TensorSpec("y", self.shape_in(self.y_order, self.queries), self.out_dtype)
        more = OF_RESULT if self.quantises else ()
        return (y, *(TensorSpec(name, (1,), "float32") for name in more))

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        specs = [TensorSpec("scalars", (len(ATTENTION_SCALARS),), "float32")]
        if not self.floating:
            names = ("q_zero_point", "k_zero_point", "v_zero_point")
            specs += [TensorSpec(name, (), "int32", optional=True) for name in names]
        return (*specs, self._mask) if self.constant_mask else tuple(specs)

    def check_constants(self, constants: Constants) -> None:
        super().check_constants(constants)
        scale = float(np.asarray(constants["scalars"])[0])
        if not 0 < scale < math.inf:
            raise InputError(f"{self}: scale = {scale:g}; scores are multiplied by a positive one")

    def tolerance(self, target: Target) -> Tolerance:
        """One step of bytes: a share beside a tie may be rounded the other way.

        Kernels round shares to the type of v before they multiply them, whose errors of random
        signs are a unit in the last place of a row at the largest of millions. Rows of few keys,
        as the first ones that are causal, are much larger than others.
        """
        if not self.floating:
            return Tolerance(steps=1, relative=4e-3, rows=True)
        if self.q_dtype == "float32":
            relative = lost_share(max(self.keys, self.depth))
            return Tolerance(steps=int(self.quantises), relative=relative, rows=True)
        unit = {"float16": 2.0**-11, "bfloat16": 2.0**-8}[self.q_dtype]
        return Tolerance(relative=4 * unit + lost_share(self.keys), rows=True)

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        return self.reference_in_threads(activations, constants, 1)

    def reference_in_threads(
        self, activations: Sequence[np.ndarray], constants: Constants, threads: int
    ) -> Arrays:
        if self.quantises:
            floats = replace(self, out_dtype="float32")
            (y,) = floats.reference_in_threads(activations, constants, threads)
            found = DynamicQuantize(y.size).reference([y.reshape(-1)], {})
            return (found[0].reshape(y.shape), *found[1:])
        orders = (self.q_order, self.k_order, self.v_order)
        q, k, v = (_by_heads(array, o) for array, o in zip(activations[:3], orders, strict=True))
        mask = None
        if self.mask_axes:
            mask = np.asarray(constants["mask"] if self.constant_mask else activations[3])
            whole = (self.batch, self.heads, self.queries, self.keys)
            mask = np.broadcast_to(mask.reshape(self.mask_shape), whole)
        s = dict(zip(ATTENTION_SCALARS, np.float32(constants["scalars"]), strict=True))
        zero_points = [int(constants.get(f"{name}_zero_point", 0)) for name in "qkv"]
        y = np.empty((self.batch, self.heads, self.queries, self.depth),
                     element(self.out_dtype).dtype)  # fmt: skip

        def compute(pair: tuple[int, int]) -> None:
            own = None if mask is None else mask[pair]
            own_qkv = (q[pair], k[pair], v[pair])
            if self.floating:
                y[pair] = attention_of_floats(self, own_qkv, own, s)
            else:
                y[pair] = attention_of_bytes(self, own_qkv, own, s, zero_points)

        in_threads(compute, list(np.ndindex(self.batch, self.heads)), threads)
        return (np.ascontiguousarray(_by_heads(y, self.y_order)),)

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        arrays = [random_array(rng, spec.shape, spec.dtype) for spec in self.inputs]
        constants: dict[str, Any] = {}
        if self.mask_axes:
            mask = rng.standard_normal(self.mask_shape).astype(np.float32)
            mask[..., 1:][rng.random(mask[..., 1:].shape) < 0.125] = -np.inf
            if self.constant_mask:
                constants["mask"] = mask
            else:
                arrays[3] = mask
        if self.floating:
            scale = rng.uniform(0.5, 1.5) / math.sqrt(self.depth)
            return tuple(arrays), {"scalars": attention_scalars(scale=scale), **constants}
        spread = 74.0 * 74.0 * math.sqrt(self.depth)  # of a sum of products of uniform bytes
        least, most, zero_point = bounds(self.out_dtype, 9)
        step = _SPREAD / _INTEGER_SPREAD
        # A share that is rounded the other way changes an output by less than half a step.
        out_scale = 0.45 / 140
        scalars = attention_scalars(
            scale=rng.uniform(0.9, 1.1) * (_INTEGER_SPREAD if self.quantised_scores else _SPREAD)
            / spread,
            scores_low=-121, scores_high=120, scores_step=step,
            rescale=0.8, rescaled_low=-75, rescaled_high=77,
            masked_low=-110, masked_high=101, masked_step=1.1 * step,
            shares_most=249, shares_step=1 / 255, out_scale=out_scale,
            low=max(least, -40), high=min(most, 47), zero_point=zero_point,
        )  # fmt: skip
        zeros = {"int8": (-11, 5, -7), "uint8": (119, 131, 121)}
        for place, name in enumerate("qkv"):
            dtype = getattr(self, f"{name}_dtype")
            constants[f"{name}_zero_point"] = zeros[dtype][place]
        return tuple(arrays), {"scalars": scalars, **constants}

    def __str__(self) -> str:
        types = (self.q_dtype, self.k_dtype, self.v_dtype, self.out_dtype)
        parts = [f"{self.batch}x{self.heads} {self.queries}x{self.keys}x{self.depth}",
                 ",".join(dict.fromkeys(types))]  # fmt: skip
        orders = (self.q_order, self.k_order, self.v_order, self.y_order)
        if set(orders) != {"bhld"}:
            parts.append(",".join(orders))
        if self.mask_axes:
            parts.append(f"mask {'constant ' if self.constant_mask else ''}{self.mask_axes}")
        named = ("causal", "quantised_scores", "rescaled_scores", "quantised_masked")
        parts += [name for name in named if getattr(self, name)]
        return " ".join(parts)


def _by_heads(array: np.ndarray, order: str) -> np.ndarray:
    """A view [batch, heads, rows, depth] of an array in an order, or the other way round."""
    return np.asarray(array).transpose(0, 2, 1, 3) if order == "blhd" else np.asarray(array)
