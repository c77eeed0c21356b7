"""What convolutions and matrix products share: two factors, and an epilogue behind their sums."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from autoq.errors import InputError
from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.arrays.layout import NHWC
from autoq.templates.arrays.storage import is_four_bit
from autoq.templates.arrays.table import ENTRIES
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.epilogue import SCALAR_NAMES, Epilogue, pack_scalars
from autoq.templates.operators.dynamic_quantize import OF_RESULT
from autoq.templates.oracle.random_arrays import bounds, random_array, random_inputs
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.target import Target
from autoq.templates.workload import Arrays, Constants, Tolerance, Workload

_BYTES = ("int8", "uint8")

OF_RUN = ("x_scale", "x_zero_point")
"""Inputs of a product whose x was quantised as it came."""


_X_ZERO_POINTS = {"uint8": 119, "int8": -11, "uint4": 6, "int4": -3}
"""Those of random cases."""


class Product(Workload):
    """Sums of products of an activation x and a constant weight, then an epilogue.

    The inputs are x, the residual where the epilogue has one, of y's shape, `row_scale` where it
    has one: float32, a number for each of the first axis of y, and where it is dynamic `x_scale`
    and `x_zero_point`, float32 [1] each, the latter a whole number of x's type. The constants are
    `weight`, `bias` (int32 [k], float32 [k] for float32), `scale` (float32 [k], or [k, groups]
    where the epilogue has groups of scales; absent for float32, unused for an int32 output),
    `scalars` (float32 [8], `epilogue.SCALAR_NAMES`), `x_zero_point` (an int) and, where the
    epilogue has them, `table` ([256]), `float_bias` (float32 [k]), `factor` (float32 [k]) and
    `factor_bounds` (float32 [2], `factor_low` and `factor_high`), for k the output's channels.
    """

    in_dtype: str
    weight_dtype: str
    epilogue: Epilogue
    sparsity: Sparsity | None = None
    in_layout = NHWC
    out_layout = NHWC

    x_shape: tuple[int, ...]
    weight_shape: tuple[int, ...]
    y_shape: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        known = (*INTEGER_RANGE, "float32")
        for name in ("in_dtype", "weight_dtype"):
            if getattr(self, name) not in known:
                raise InputError(f"{name} {getattr(self, name)!r}: one of {', '.join(known)}")
        if (self.in_dtype == "float32") != (self.weight_dtype == "float32"):
            raise InputError(f"{self.in_dtype} times {self.weight_dtype}: both or none are floats")

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        specs = [TensorSpec("x", self.x_shape, self.in_dtype, self.in_layout)]
        residual = self.epilogue.residual_dtype
        if residual is not None:
            specs.append(TensorSpec("residual", self.y_shape, residual, self.out_layout))
        if self.epilogue.row_scale:
            specs.append(TensorSpec("row_scale", self.y_shape[:1], "float32"))
        if self.epilogue.dynamic:
            specs += (TensorSpec(name, (1,), "float32") for name in OF_RUN)
        return tuple(specs)

    @property
    def dynamic(self) -> bool:
        return self.epilogue.dynamic

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        y = TensorSpec("y", self.y_shape, self.epilogue.out_dtype, self.out_layout)
        if not self.epilogue.by_range:
            return (y,)
        return (y, *(TensorSpec(name, (1,), "float32") for name in OF_RESULT))

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        integer, channels = self.in_dtype != "float32", self.weight_shape[:1]
        specs = [
            TensorSpec("weight", self.weight_shape, self.weight_dtype),
            TensorSpec("bias", channels, "int32" if integer else "float32"),
            TensorSpec("scalars", (len(SCALAR_NAMES),), "float32"),
        ]
        if integer:
            unused = self.epilogue.out_dtype == "int32"
            groups = (self.scale_groups,) if self.epilogue.scale_group else ()
            specs.append(TensorSpec("scale", (*channels, *groups), "float32", optional=unused))
            if not self.epilogue.dynamic:
                specs.append(TensorSpec("x_zero_point", (), "int32", optional=True))
        if self.epilogue.float_bias:
            specs.append(TensorSpec("float_bias", channels, "float32"))
        if self.epilogue.factor:
            specs.append(TensorSpec("factor", channels, "float32"))
            specs.append(TensorSpec("factor_bounds", (2,), "float32"))
        if self.epilogue.table:
            specs.append(TensorSpec("table", (ENTRIES,), self.epilogue.out_dtype))
        return tuple(specs)

    @property
    def bytes(self) -> int:
        return super().bytes + TensorSpec("weight", self.weight_shape, self.weight_dtype).bytes

    @property
    def scale_groups(self) -> int:
        """Scales of an output channel."""
        group = self.epilogue.scale_group
        return math.prod(self.weight_shape[1:]) // group if group else 1

    @property
    def pads_with_zero(self) -> bool:
        """Whether what lies outside x is 0, so that x has no zero point other than 0."""
        return False

    def tolerance(self, target: Target) -> Tolerance:
        """On the CPU integers with a fused residual may be one step off.

        LLVM may contract the epilogue's multiplication and addition. Floats are equal but behind an
        activation: exponentials and the error function are off by less than 1e-6 of their results,
        which are at most the values that they multiply. What is quantised by its range may be a
        step off for it.
        """
        if self.epilogue.by_range:
            return Tolerance(steps=1)
        fused = target.kind == "cpu" and self.epilogue.residual_dtype is not None
        return Tolerance(steps=1 if fused and self.epilogue.out_dtype != "int32" else 0)

    def retyped(self, inputs: Sequence[str], outputs: Sequence[str]) -> Workload:
        residual = inputs[1] if self.epilogue.residual_dtype else None
        epilogue = dataclasses.replace(self.epilogue, out_dtype=outputs[0], residual_dtype=residual)
        return self._replace(in_dtype=inputs[0], epilogue=epilogue)

    def check_constants(self, constants: Constants) -> None:
        super().check_constants(constants)
        if self.sparsity is not None:
            weight = np.asarray(constants["weight"])
            self.sparsity.check(weight.reshape(len(weight), -1), str(self))
        if self.epilogue.uniform:
            require_uniform(self.epilogue.out_dtype, constants, str(self))

    def key_fields(self) -> dict[str, Any]:
        fields = super().key_fields()
        if self.sparsity is None:  # keys of dense products stay as they are
            fields.pop("sparsity", None)
        return fields

    def with_constant(self, name: str, dtype: str) -> Workload | None:
        if name != "weight":
            return super().with_constant(name, dtype)
        return self._replace(weight_dtype=dtype)

    def _replace(self, **changes: Any) -> Any:
        return dataclasses.replace(cast("Any", self), **changes)

    def before_table(
        self, constants: Constants, table: np.ndarray, out_dtype: str
    ) -> tuple[Workload, Constants] | None:
        if self.in_dtype == "float32":
            return None
        behind = behind_table(self.epilogue, constants, table, out_dtype)
        return behind and (self._replace(epilogue=behind[0]), behind[1])

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        return self.reference_in_threads(activations, constants, 1)

    @abstractmethod
    def reference_in_threads(
        self, activations: Sequence[np.ndarray], constants: Constants, threads: int
    ) -> Arrays: ...

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        epilogue = self.epilogue.values if self.epilogue.by_range else self.epilogue
        filters = self.weight_shape[0]
        depth = math.prod(self.weight_shape[1:])
        x, *others = self.inputs
        images = random_inputs(rng, (x,))
        weight = random_array(rng, self.weight_shape, self.weight_dtype)
        if self.sparsity is not None:
            flat = weight.reshape(len(weight), -1)
            weight = self.sparsity.pruned(rng, flat).reshape(weight.shape)
        residual = tuple(spec for spec in others if spec.name == "residual")
        activations = images + random_inputs(rng, residual)
        if epilogue.row_scale:
            activations += (rng.uniform(0.5, 1.5, self.y_shape[0]).astype(np.float32),)
        zero_point = (
            0 if self.pads_with_zero or epilogue.uniform else _X_ZERO_POINTS.get(self.in_dtype, 0)
        )
        if epilogue.dynamic:
            activations += np.float32([rng.uniform(0.5, 1.5)]), np.float32([zero_point])
        if self.in_dtype == "float32":
            bias = rng.standard_normal(filters, np.float32)
            scalars = pack_scalars(low=-2.0 * math.sqrt(depth), high=2.0 * math.sqrt(depth))
            return activations, {"weight": weight, "bias": bias, "scalars": scalars}
        # Standard deviation of a sum of `depth` products of uniform values.
        spread = _deviation(self.in_dtype) * _deviation(self.weight_dtype) * math.sqrt(depth)
        if self.sparsity is not None:
            spread *= math.sqrt(max(np.count_nonzero(weight), 1) / weight.size)
        # Outputs of 4 bits have a sixteenth of the range, and activations are curved near 0.
        narrow = is_four_bit(epilogue.out_dtype)
        step = 1 / 16 if narrow else 1 if epilogue.activation == "none" else 1 / 32
        out_zero_point = 0 if epilogue.uniform else _zero_point(epilogue.out_dtype, 7)
        low, high, out_zero_point = bounds(epilogue.out_dtype, out_zero_point)
        more: dict[str, Any] = {}
        if epilogue.table:
            more["table"] = random_array(rng, (ENTRIES,), epilogue.out_dtype)
        if epilogue.float_bias:
            more["float_bias"] = rng.uniform(-40 * step, 40 * step, filters).astype(np.float32)
        if epilogue.factor:
            more["factor"] = rng.uniform(-1.2, 1.2, filters).astype(np.float32)
            more["factor_bounds"] = np.array([-119, 123], np.float32)
        shape = (filters, self.scale_groups) if epilogue.scale_group else (filters,)
        scale = (rng.uniform(40, 90, shape) * step / spread).astype(np.float32)
        if epilogue.concatenates:
            scale[rng.permutation(filters)[: filters // 2]] = 0
        bias = rng.integers(-int(spread), int(spread) + 1, filters, np.int32)
        if epilogue.uniform:
            scale[:], bias[:] = scale[0], 0
        return activations, {
            **more,
            "weight": weight,
            "bias": bias,
            "scale": scale,
            "scalars": pack_scalars(
                accumulator_low=math.ceil(-125 * step),
                accumulator_high=math.floor(122 * step),
                accumulator_scale=0.613739,
                residual_scale=0.429281,
                residual_zero_point=float(_zero_point(epilogue.residual_dtype or "int8", 9)),
                low=low,
                high=high,
                zero_point=out_zero_point,
            ),
            **({} if epilogue.dynamic else {"x_zero_point": zero_point}),
        }


def require_uniform(out_dtype: str, constants: Constants, named: str) -> None:
    """Raise InputError unless the constants are those of a `uniform` epilogue."""
    scale, bias = np.asarray(constants["scale"]), np.asarray(constants["bias"])
    *_, low, high, zero_point = np.asarray(constants["scalars"])
    plain = zero_point == 0 and (low, high) == INTEGER_RANGE[out_dtype]
    plain = plain and np.all(scale == scale[0]) and not bias.any()
    if not plain or constants.get("x_zero_point"):
        raise InputError(f"{named}: uniform, but scales differ, or there is a bias or zero point")


def behind_table(
    epilogue: Epilogue, constants: Constants, table: np.ndarray, out_dtype: str
) -> tuple[Epilogue, Constants] | None:
    """The epilogue with a table behind its output, and its constants; None where it takes none."""
    if epilogue.table or epilogue.uniform or not {epilogue.out_dtype, out_dtype} <= {*_BYTES}:
        return None
    scalars = np.array(constants["scalars"], np.float32)
    if epilogue.out_dtype != out_dtype:  # what selects an entry takes the output's sign
        scalars[SCALAR_NAMES.index("zero_point")] += 128 if out_dtype == "uint8" else -128
        table = np.roll(table, 128)
    behind = dataclasses.replace(epilogue, out_dtype=out_dtype, table=True)
    return behind, {**constants, "scalars": scalars, "table": table}


def _deviation(dtype: str) -> float:
    """Standard deviation of uniform integers."""
    return 4.6 if is_four_bit(dtype) else 74.0


def _zero_point(dtype: str, of_bytes: int) -> int:
    """A zero point of the dtype's sign, a third as large for 4 bits."""
    size = of_bytes // 3 if is_four_bit(dtype) else of_bytes
    return -size if dtype in ("int4", "int8") else size
