"""Batches of products of two activations, such as those of attention, and what is fused behind."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.templates.arrays.element import element
from autoq.templates.arrays.table import ENTRIES
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.epilogue import (
    FLOAT_OUTPUTS,
    SCALAR_NAMES,
    Epilogue,
    apply_epilogue,
    pack_scalars,
)
from autoq.templates.field_types import require_positive
from autoq.templates.operators.product import behind_table
from autoq.templates.oracle.float_sums import lost_share
from autoq.templates.oracle.random_arrays import bounds, random_array, random_inputs
from autoq.templates.oracle.threads import in_threads
from autoq.templates.target import Target
from autoq.templates.workload import Arrays, Constants, Tolerance, Workload

_BYTES, _FLOATS = ("int8", "uint8"), ("float16", "bfloat16", "float32")
_X_ORDERS, _Y_ORDERS = ("bhmk", "bmhk"), ("bhmn", "bmhn")
_OTHER_ORDERS = ("bhnk", "bhkn", "bnhk", "bkhn")
_ZERO_POINTS = {"uint8": (119, 7), "int8": (-11, -7)}


@dataclass(frozen=True)
class BatchedGemm(Workload, operator="batched_gemm"):
    """Matrix product of activations for each of `batch * heads` pairs, then an epilogue.

    Each y [m, n] is of x [m, k] and `other` [n, k] or [k, n]. An order names the axes of an array
    as they lie in memory: x is "bhmk" or "bmhk", other "bhnk", "bhkn", "bnhk" or "bkhn", y and the
    residual "bhmn" or "bmhn", for b of `batch` and h of `heads`. in_dtype and other_dtype are int8
    or uint8, or both of one type of floats.

    The constants are `scale` (float32 [1], unused for an int32 output), `scalars` (float32 [8],
    `epilogue.SCALAR_NAMES`), `x_zero_point` and `other_zero_point` (ints of the arrays' dtypes) and
    `table` ([256], where the epilogue has one). A sum of (x - x_zero_point) * (other -
    other_zero_point) fits 32 bits.

    Raises InputError for extents, orders and dtypes that are none of these.
    """

    batch: int
    m: int
    n: int
    k: int
    heads: int = 1
    in_dtype: str = "int8"
    other_dtype: str = "int8"
    x_order: str = "bhmk"
    other_order: str = "bhnk"
    y_order: str = "bhmn"
    epilogue: Epilogue = field(default_factory=Epilogue)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "batch", "heads", "m", "n", "k")
        known = {"x": _X_ORDERS, "other": _OTHER_ORDERS, "y": _Y_ORDERS}
        for name, orders in known.items():
            order = getattr(self, f"{name}_order")
            if order not in orders:
                raise InputError(f"{name}_order {order!r}: choose {' or '.join(orders)}")
        self._check_dtypes()

    def _check_dtypes(self) -> None:
        dtypes = (self.in_dtype, self.other_dtype)
        for dtype in dtypes:
            if dtype not in (*_BYTES, *_FLOATS):
                raise InputError(
                    f"activations of {dtype!r}: choose int8 or uint8, or {', '.join(_FLOATS)} "
                    "for both"
                )
        if self.floating:
            out = self.epilogue.out_dtype
            if self.in_dtype != self.other_dtype:
                raise InputError(f"activations of {' and '.join(dtypes)}: floats are of one type")
            if self.epilogue != Epilogue(out) or out not in FLOAT_OUTPUTS:
                raise InputError(
                    f"products of {self.in_dtype} end in plain {', '.join(FLOAT_OUTPUTS)}"
                )
            return
        if self.epilogue.concatenates:
            raise InputError("products of two activations have no channels that keep a residual")
        plain = self.epilogue == Epilogue(self.epilogue.out_dtype)
        if not (self.epilogue.of_convolutions or plain):
            raise InputError("products of two activations end in bytes, int32 or plain floats")
        if self.k > LONGEST_SUM:
            raise InputError(f"k = {self.k}: sums of at most {LONGEST_SUM} products fit 32 bits")

    @property
    def floating(self) -> bool:
        """Whether the activations are floats."""
        return bool({self.in_dtype, self.other_dtype} & set(_FLOATS))

    def with_output(self, dtype: str) -> BatchedGemm:
        """The product of floats with an output of another type of floats."""
        return replace(self, epilogue=Epilogue(dtype))

    @property
    def of_one_pair(self) -> BatchedGemm:
        return replace(self, batch=1, heads=1)

    @property
    def products(self) -> int:
        """How many pairs of matrices there are."""
        return self.batch * self.heads

    @property
    def factors(self) -> tuple[str, str]:
        """Dtypes of the left and of the right matrix."""
        return (self.in_dtype, self.other_dtype)

    @property
    def operations(self) -> int:
        """Multiplications plus additions."""
        return 2 * self.products * self.m * self.n * self.k

    def shape_in(self, order: str) -> tuple[int, ...]:
        """Extents of an array's axes, in their order in memory."""
        sizes = {"b": self.batch, "h": self.heads, "m": self.m, "n": self.n, "k": self.k}
        return tuple(sizes[axis] for axis in order)

    def row_places(self, order: str, pair: Any) -> tuple[Any, int]:
        """Where the first row of a pair's matrix starts in an array, and how far rows lie apart.

        Both count elements; `pair` is a number or an expression below `products`.
        """
        _, _, rows, columns = self.shape_in("bh" + order.replace("b", "").replace("h", ""))
        if order.startswith("bh"):
            return pair * (rows * columns), columns
        whole = self.heads * columns
        return pair // self.heads * (rows * whole) + pair % self.heads * columns, whole

    @property
    def x_shape(self) -> tuple[int, ...]:
        return self.shape_in(self.x_order)

    @property
    def other_shape(self) -> tuple[int, ...]:
        return self.shape_in(self.other_order)

    @property
    def y_shape(self) -> tuple[int, ...]:
        return self.shape_in(self.y_order)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        x = TensorSpec("x", self.x_shape, self.in_dtype)
        other = TensorSpec("other", self.other_shape, self.other_dtype)
        residual = self.epilogue.residual_dtype
        if residual is None:
            return x, other
        return x, other, TensorSpec("residual", self.y_shape, residual)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("y", self.y_shape, self.epilogue.out_dtype),)

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        specs = [
            TensorSpec("scale", (1,), "float32", optional=self.epilogue.out_dtype == "int32"),
            TensorSpec("scalars", (len(SCALAR_NAMES),), "float32"),
        ]
        if not self.floating:
            names = ("x_zero_point", "other_zero_point")
            specs += [TensorSpec(name, (), "int32", optional=True) for name in names]
        if self.epilogue.table:
            specs.append(TensorSpec("table", (ENTRIES,), self.epilogue.out_dtype))
        return tuple(specs)

    def tolerance(self, target: Target) -> Tolerance:
        """On the CPU a fused residual may be one step off, as behind other products.

        Products of 16-bit floats are exact, and their sum loses what `lost_share` says, which
        leaves room for fused multiply-adds of float32 in any order.
        """
        if self.floating:
            return Tolerance(relative=lost_share(self.k))
        fused = target.kind == "cpu" and self.epilogue.residual_dtype is not None
        return Tolerance(steps=1 if fused and self.epilogue.out_dtype != "int32" else 0)

    def before_table(
        self, constants: Constants, table: np.ndarray, out_dtype: str
    ) -> tuple[Workload, Constants] | None:
        behind = behind_table(self.epilogue, constants, table, out_dtype)
        return behind and (dataclasses.replace(self, epilogue=behind[0]), behind[1])

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        return self.reference_in_threads(activations, constants, 1)

    def reference_in_threads(
        self, activations: Sequence[np.ndarray], constants: Constants, threads: int
    ) -> Arrays:
        orders = {self.x_order: "bhmk", self.other_order: "bhkn", self.y_order: "bhmn"}
        x, other, *residual = (
            _in_order(array, order, wanted)
            for array, (order, wanted) in zip(activations, orders.items(), strict=False)
        )
        zero_points = (constants.get(f"{name}_zero_point", 0) for name in ("x", "other"))
        x_zero, other_zero = map(int, zero_points)
        scale = constants.get("scale")
        scale = None if scale is None else np.broadcast_to(np.asarray(scale), (self.n,))
        shape = (self.batch, self.heads, self.m, self.n)
        y = np.empty(shape, element(self.epilogue.out_dtype).dtype)
        kind, zero = (np.float32, np.float32(0)) if self.floating else (np.int32, np.int32(0))
        # float64 holds every sum of products of bytes that fits 32 bits.
        exact = np.float32 if self.floating else np.float64

        def compute(pair: tuple[int, int]) -> None:
            left = x[pair].astype(exact) - exact(x_zero)
            sums = left @ (other[pair].astype(exact) - exact(other_zero))
            y[pair] = apply_epilogue(
                self.epilogue, sums.astype(kind), zero, scale,
                np.asarray(constants["scalars"]), residual[0][pair] if residual else None,
                constants.get("table"),
            )  # fmt: skip

        in_threads(compute, list(np.ndindex(self.batch, self.heads)), threads)
        return (np.ascontiguousarray(_in_order(y, "bhmn", self.y_order)),)

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        epilogue = self.epilogue
        if self.floating:
            scale = np.array([rng.uniform(0.5, 1.5) / math.sqrt(self.k)], np.float32)
            scalars = pack_scalars(low=-1.75, high=2.0)
            return random_inputs(rng, self.inputs), {"scale": scale, "scalars": scalars}
        spread = 74.0 * 74.0 * math.sqrt(self.k)  # of a sum of products of uniform bytes
        low, high, zero_point = bounds(
            epilogue.out_dtype, -7 if epilogue.out_dtype == "int8" else 7
        )
        table = {}
        if epilogue.table:
            table = {"table": random_array(rng, (ENTRIES,), epilogue.out_dtype)}
        return random_inputs(rng, self.inputs), {
            **table,
            "scale": np.array([rng.uniform(40, 90) / spread], np.float32),
            "scalars": pack_scalars(
                accumulator_low=-125, accumulator_high=122, accumulator_scale=0.613739,
                residual_scale=0.429281, residual_zero_point=9.0,
                low=low, high=high, zero_point=zero_point,
            ),
            "x_zero_point": _ZERO_POINTS[self.in_dtype][0],
            "other_zero_point": _ZERO_POINTS[self.other_dtype][1],
        }  # fmt: skip

    def __str__(self) -> str:
        orders = (self.x_order, self.other_order, self.y_order)
        heads = f"x{self.heads}" if self.heads > 1 else ""
        floats = f" {self.in_dtype}" if self.floating else ""
        text = f"{self.batch}{heads} {self.m}x{self.n}x{self.k}{floats}"
        return text if orders == ("bhmk", "bhnk", "bhmn") else f"{text} {','.join(orders)}"


LONGEST_SUM = (2**31 - 1) // 255**2
"""Products of two bytes less their zero points whose sum fits 32 bits, whatever they are."""


def _in_order(array: np.ndarray, order: str, wanted: str) -> np.ndarray:
    """A view of an array with its axes in another order."""
    return np.asarray(array).transpose([order.index(axis) for axis in wanted])
