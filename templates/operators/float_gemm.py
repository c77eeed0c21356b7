"""Product of floating-point activations with a weight of floats or of narrow integers.

The mixed-input product of NVIDIA's CUTLASS and of *Mixed-Input Matrix Multiplication*: weights are
kept in 4 or 8 bits and widened to the activations' type on their way to the tensor cores.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.templates.arrays.element import INTEGER_RANGE, element
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.epilogue import ACTIVATIONS, activated
from autoq.templates.field_types import require_positive
from autoq.templates.oracle.float_sums import lost_share, lost_share_of_e4m3
from autoq.templates.oracle.random_arrays import random_array, random_inputs
from autoq.templates.oracle.threads import in_threads
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.target import Target
from autoq.templates.workload import Arrays, Constants, Tolerance, Workload

_FLOATS = ("float16", "bfloat16")
_E4M3 = "float8_e4m3fn"
# Rows of a reference that a thread computes at a time.
_MOST_ROWS = 512


@dataclass(frozen=True)
class FloatGemm(Workload, operator="float_gemm"):
    """`y = activation(x @ weight.T + bias) + residual` with x `[m, k]` and weight `[n, k]`.

    With residual_first it is `activation(x @ weight.T + bias + residual)`.

    in_dtype: of x and of every product's factors, float16, bfloat16, float8_e4m3fn, or float32
    beside integers. weight_dtype: the same, or, but for float8_e4m3fn, int8, uint8, int4 or uint4.
    out_dtype: float16, bfloat16 or float32.
    group: values along k that share a scale, 0 for a scale a row of the weight. zero_points:
    whether integers have them, one for each scale. weight_left: the weight is the left factor, and
    y is `[n, m]` instead of `[m, n]`. x_scale: whether rows of x have scales, an input float32
    `[m]`. residual: whether an input of y's shape and dtype is added. batch: products of this
    shape; from 2 on all arrays have a first axis of so many. sparsity: what is known to be zero of
    the weight of one product of floats, which dense templates need not make use of.

    The constants are `weight`; for integers and float8_e4m3fn `scale` float32 `[n, groups]`;
    `zero_point` of the weight's dtype and the scale's shape; `bias` float32 `[n]`. An integer w
    counts as `(w - zero_point) * scale`. Sums are float32.

    Raises InputError for dtypes and groups that do not go together.
    """

    m: int
    n: int
    k: int
    in_dtype: str = "float16"
    weight_dtype: str = "int8"
    out_dtype: str = "float16"
    group: int = 0
    zero_points: bool = False
    bias: bool = False
    activation: str = "none"
    weight_left: bool = False
    x_scale: bool = False
    residual: bool = False
    batch: int = 1
    sparsity: Sparsity | None = None
    residual_first: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = (self.in_dtype, *INTEGER_RANGE)
        require_positive(self, "m", "n", "k", "batch")
        if self.in_dtype not in (*_FLOATS, _E4M3, "float32"):
            raise InputError(
                f"in_dtype {self.in_dtype!r}: one of {', '.join(_FLOATS)}, float32, {_E4M3}"
            )
        if self.in_dtype == _E4M3 != self.weight_dtype:
            raise InputError(
                f"weight_dtype {self.weight_dtype!r}: a factor of {_E4M3} is multiplied with "
                "its own type alone"
            )
        if self.in_dtype == self.weight_dtype == "float32":
            raise InputError("weight_dtype 'float32': float32 is multiplied with integers alone")
        if self.weight_dtype not in weights:
            raise InputError(f"weight_dtype {self.weight_dtype!r}: one of {', '.join(weights)}")
        if self.out_dtype not in (*_FLOATS, "float32"):
            raise InputError(f"out_dtype {self.out_dtype!r}: one of {', '.join(_FLOATS)}, float32")
        if self.activation not in ACTIVATIONS:
            raise InputError(f"activation {self.activation!r}: one of {', '.join(ACTIVATIONS)}")
        if not self.quantised and (self.group or self.zero_points):
            raise InputError(f"a weight of {self.weight_dtype} has neither groups nor zero points")
        if self.residual_first and not self.residual:
            raise InputError("residual_first needs a residual")
        if self.sparsity is not None and (self.quantised or self.batch > 1):
            raise InputError(f"sparsity {self.sparsity}: of one weight of floats alone")
        if self.group and self.k % self.group:
            raise InputError(f"group {self.group} does not divide k = {self.k}")

    @property
    def quantised(self) -> bool:
        """Whether the weight is of integers."""
        return self.weight_dtype in INTEGER_RANGE

    @property
    def scaled(self) -> bool:
        """Whether the weight has scales."""
        return self.quantised or self.in_dtype == _E4M3

    @property
    def alone(self) -> bool:
        """Whether it is one product, and what follows takes constants alone."""
        return not (self.x_scale or self.residual) and self.batch == 1

    @property
    def plain(self) -> bool:
        """Whether it is `alone` and of 16-bit floats."""
        return self.in_dtype in _FLOATS and self.alone

    @property
    def groups(self) -> int:
        """Scales of a row of the weight."""
        return self.k // self.group if self.group else 1

    @property
    def factors(self) -> tuple[str, str]:
        """Dtypes of the left and of the right matrix."""
        dtypes = (self.in_dtype, self.weight_dtype)
        return dtypes[::-1] if self.weight_left else dtypes

    @property
    def operations(self) -> int:
        """Multiplications plus additions, of what is not known to be zero."""
        weights = self.n * self.k
        kept = self.sparsity.weights(weights) if self.sparsity else weights
        return 2 * self.batch * self.m * kept

    def with_sparsity(self, sparsity: Sparsity) -> Workload | None:
        return None if self.quantised or self.batch > 1 else replace(self, sparsity=sparsity)

    @property
    def dense(self) -> Workload:
        return replace(self, sparsity=None)

    def with_output(self, dtype: str) -> FloatGemm:
        """The product with an output of another type of floats."""
        return replace(self, out_dtype=dtype)

    @property
    def y_shape(self) -> tuple[int, ...]:
        return self._in_batch(*((self.n, self.m) if self.weight_left else (self.m, self.n)))

    def _in_batch(self, *shape: int) -> tuple[int, ...]:
        return (self.batch, *shape) if self.batch > 1 else shape

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        specs = [TensorSpec("x", self._in_batch(self.m, self.k), self.in_dtype)]
        if self.x_scale:
            specs.append(TensorSpec("x_scale", self._in_batch(self.m), "float32"))
        if self.residual:
            specs.append(TensorSpec("residual", self.y_shape, self.out_dtype))
        return tuple(specs)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("y", self.y_shape, self.out_dtype),)

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        of_groups = self._in_batch(self.n, self.groups)
        specs = [TensorSpec("weight", self._in_batch(self.n, self.k), self.weight_dtype)]
        if self.scaled:
            specs.append(TensorSpec("scale", of_groups, "float32"))
        if self.zero_points:
            specs.append(TensorSpec("zero_point", of_groups, self.weight_dtype))
        if self.bias:
            specs.append(TensorSpec("bias", self._in_batch(self.n), "float32"))
        return tuple(specs)

    @property
    def bytes(self) -> int:
        return super().bytes + self.constants[0].bytes

    def tolerance(self, target: Target) -> Tolerance:
        """What a float32 sum, and rounding groups' scales and scaled weights to 16 bits, can lose.

        With a scale a row products are exact, and their sum loses what `lost_share` says.

        A group's scale and each scaled weight are off by up to half a unit in the last place, u,
        each; such errors are independent, so that the error of a sum is normal with a deviation
        below sqrt(2 / 3) u of its root mean square. Six of them are allowed. Beside float32 nothing
        is rounded to 16 bits.

        What products of float8_e4m3fn lose `lost_share_of_e4m3` says.
        """
        if self.in_dtype == _E4M3:
            return Tolerance(relative=lost_share_of_e4m3(self.k))
        relative = lost_share(self.k)
        if self.group and self.in_dtype != "float32":
            relative += 5 * (2.0**-11 if self.in_dtype == "float16" else 2.0**-8)
        return Tolerance(relative=relative)

    def check_constants(self, constants: Constants) -> None:
        super().check_constants(constants)
        if self.sparsity is not None:
            self.sparsity.check(np.asarray(constants["weight"]), str(self))

    def key_fields(self) -> dict[str, Any]:
        fields = super().key_fields()
        for name in ("sparsity", "residual_first"):  # which came later: others' keys stay
            if not fields[name]:
                del fields[name]
        return fields

    def dequantised(self, constants: Constants) -> np.ndarray:
        """The weight as float32 [n, k], in a batch [batch, n, k]."""
        weight = np.asarray(constants["weight"]).astype(np.float32)
        length = self.group or self.k
        if self.zero_points:
            weight -= np.repeat(np.asarray(constants["zero_point"], np.float32), length, axis=-1)
        if self.scaled:
            weight *= np.repeat(np.asarray(constants["scale"], np.float32), length, axis=-1)
        return weight

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        return self.reference_in_threads(activations, constants, 1)

    def reference_in_threads(
        self, activations: Sequence[np.ndarray], constants: Constants, threads: int
    ) -> Arrays:
        given = {spec.name: array for spec, array in zip(self.inputs, activations, strict=True)}
        given |= {"weight": self.dequantised(constants)}
        if self.bias:
            given["bias"] = np.asarray(constants["bias"], np.float32)
        y = np.empty(self.y_shape, element(self.out_dtype).dtype)
        products = y if self.batch > 1 else y[None]
        step = max(1, min(_MOST_ROWS, -(-self.m // max(1, threads))))
        for number, of_product in enumerate(products):
            own = {k: v[number] for k, v in given.items()} if self.batch > 1 else given
            compute = functools.partial(self._compute, own, of_product)
            in_threads(compute, [slice(at, at + step) for at in range(0, self.m, step)], threads)
        return (y,)

    def _compute(self, given: Mapping[str, np.ndarray], y: np.ndarray, rows: slice) -> None:
        """Some rows of x of one product, from its arrays by name, into y."""
        sums = np.asarray(given["x"][rows]).astype(np.float32) @ given["weight"].T
        if self.x_scale:
            sums *= given["x_scale"][rows, None]
        if self.bias:
            sums += given["bias"]
        by_rows = y.T if self.weight_left else y
        if not self.residual:
            by_rows[rows] = activated(sums, self.activation)
            return
        added = (given["residual"].T if self.weight_left else given["residual"])[rows]
        if self.residual_first:
            by_rows[rows] = activated(sums + added.astype(np.float32), self.activation)
        else:
            by_rows[rows] = activated(sums, self.activation) + added.astype(np.float32)

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        shapes = {spec.name: spec.shape for spec in self.constants}
        weight = random_array(rng, shapes["weight"], self.weight_dtype)
        if self.sparsity is not None:
            weight = self.sparsity.pruned(rng, weight)
        constants: dict[str, Any] = {"weight": weight}
        if self.scaled:
            least, most = INTEGER_RANGE.get(self.weight_dtype, (0, math.sqrt(12)))
            spread = (most - least) / math.sqrt(12) * math.sqrt(self.k)
            scale = rng.uniform(0.5, 1.5, shapes["scale"]) / spread
            constants["scale"] = scale.astype(np.float32)
        if self.zero_points:
            constants["zero_point"] = random_array(rng, shapes["zero_point"], self.weight_dtype)
        if self.bias:
            constants["bias"] = rng.standard_normal(shapes["bias"], np.float32)
        values = random_inputs(rng, self.inputs)
        if self.x_scale:  # rows of one size, as the tolerance has it
            scale = rng.uniform(0.5, 1.5, self.inputs[1].shape).astype(np.float32)
            values = (values[0], scale, *values[2:])
        return values, constants

    def __str__(self) -> str:
        sides = [self.in_dtype, self.weight_dtype]
        if self.weight_left:
            sides.reverse()
        group = f" g{self.group}" if self.group else ""
        batch = f"{self.batch} of " if self.batch > 1 else ""
        pattern = "" if self.sparsity is None else f" {self.sparsity}"
        return f"{batch}{self.m}x{self.n}x{self.k} {'x'.join(sides)}{group}{pattern}"
