"""Workloads: the distinct pieces of arithmetic a model is made of, each with a stable key.

A workload names shapes and dtypes only; scales, zero points and clamp bounds are data, so that
layers which differ in their quantisation alone share one kernel and one tuning record.
Activations are NHWC unless a convolution says NHWCnc (`layout.py`), weights KRSC. Shapes count
values; int4 and uint4 arrays are stored two values a byte along the channels (`storage.py`), which
`bytes` counts.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autoq.templates.epilogue import Epilogue
from autoq.templates.layout import LAYOUTS, NHWC, NHWCNC, fits, shape_in
from autoq.templates.lookup import Lookup
from autoq.templates.movement import Add, Concat, Dequantize, Pool2d, Quantize, Relayout
from autoq.templates.storage import ITEM_BITS, stored_bytes


@dataclass(frozen=True)
class Conv2d:
    """Convolution `x [n, h, w, c]` with `weight [k, r, s, c / groups]`, then an epilogue.

    padding is (top, left, bottom, right) in pixels. `zero_point_border` says that the activations'
    zero point is not 0 and that padding exists: what lies outside the image then means that zero
    point, and the kernel takes a bias for every kind of border (see `border.py`).
    in_dtype is int4, uint4, int8, uint8 or float32; weight_dtype int4 or int8 (float32 for
    float32).
    in_layout is that of x, out_layout that of y and of the residual: "NHWC", or "NHWCnc" where
    bytes fill its blocks (n a multiple of 8, channels of 16).
    """

    n: int
    h: int
    w: int
    c: int
    k: int
    r: int
    s: int
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    in_dtype: str = "int8"
    weight_dtype: str = "int8"
    zero_point_border: bool = False
    epilogue: Epilogue = field(default_factory=Epilogue)
    in_layout: str = NHWC
    out_layout: str = NHWC

    def __post_init__(self) -> None:
        if self.p <= 0 or self.q <= 0:
            raise ValueError(f"{self}: the padded image is smaller than the filter")
        if self.c % self.groups or self.k % self.groups:
            raise ValueError(f"{self}: groups must divide c and k")
        if not {self.in_layout, self.out_layout} <= set(LAYOUTS):
            raise ValueError(f"{self}: a layout is one of {', '.join(LAYOUTS)}")
        if self.in_layout == NHWCNC and not self.may_read_blocks:
            raise ValueError(f"{self}: x does not fill the blocks of {NHWCNC}")
        if self.out_layout == NHWCNC and not self.may_write_blocks:
            raise ValueError(f"{self}: y or its residual does not fill the blocks of {NHWCNC}")

    @property
    def may_read_blocks(self) -> bool:
        """Whether x has an NHWCnc form."""
        return fits(self.n, self.c, self.in_dtype)

    @property
    def may_write_blocks(self) -> bool:
        """Whether y, and the residual where there is one, have an NHWCnc form."""
        out, residual = self.epilogue.out_dtype, self.epilogue.residual_dtype
        if not fits(self.n, self.k, out):
            return False
        # The residual has y's shape, so its blocks hold as many channels.
        return residual is None or ITEM_BITS[residual] == ITEM_BITS[out]

    @property
    def p(self) -> int:
        """Output height in pixels."""
        reach = self.dilation[0] * (self.r - 1) + 1
        return (self.h + self.padding[0] + self.padding[2] - reach) // self.stride[0] + 1

    @property
    def q(self) -> int:
        """Output width in pixels."""
        reach = self.dilation[1] * (self.s - 1) + 1
        return (self.w + self.padding[1] + self.padding[3] - reach) // self.stride[1] + 1

    @property
    def operations(self) -> int:
        """Multiplications plus additions, padding included."""
        return 2 * self.n * self.p * self.q * self.k * self.r * self.s * (self.c // self.groups)

    @property
    def bytes(self) -> int:
        """Bytes through device memory when every operand moves once."""
        moved = stored_bytes(self.x_shape, self.in_dtype)
        moved += stored_bytes(self.weight_shape, self.weight_dtype)
        moved += stored_bytes(self.y_shape, self.epilogue.out_dtype)
        if self.epilogue.residual_dtype:
            moved += stored_bytes(self.y_shape, self.epilogue.residual_dtype)
        return moved

    @property
    def x_shape(self) -> tuple[int, ...]:
        """Shape of x in `in_layout`."""
        return shape_in((self.n, self.h, self.w, self.c), self.in_layout, self.in_dtype)

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        return (self.k, self.r, self.s, self.c // self.groups)

    @property
    def y_shape(self) -> tuple[int, ...]:
        """Shape of y and of the residual in `out_layout`."""
        shape = (self.n, self.p, self.q, self.k)
        return shape_in(shape, self.out_layout, self.epilogue.out_dtype)

    @property
    def in_nhwc(self) -> Conv2d:
        """The same arithmetic over NHWC activations."""
        return dataclasses.replace(self, in_layout=NHWC, out_layout=NHWC)

    def laid_out(self, layouts: Sequence[str] = LAYOUTS) -> list[Conv2d]:
        """The same arithmetic in every pair of the given layouts that has a form."""
        reads = [a for a in layouts if a == NHWC or self.may_read_blocks]
        writes = [a for a in layouts if a == NHWC or self.may_write_blocks]
        pairs = itertools.product(reads, writes)
        return [dataclasses.replace(self, in_layout=a, out_layout=b) for a, b in pairs]

    def __str__(self) -> str:
        kind = f"{self.r}x{self.s}"
        text = f"N{self.n} {kind} {self.h}x{self.w}x{self.c}->{self.k}"
        if self.stride != (1, 1):
            text += f" s{self.stride[0]}"
        if self.dilation != (1, 1):
            text += f" d{self.dilation[0]}"
        if self.groups != 1:
            text += f" g{self.groups}"
        if self.in_layout != self.out_layout:
            text += f" {self.in_layout}>{self.out_layout}"
        elif self.in_layout != NHWC:
            text += f" {self.in_layout}"
        return text


@dataclass(frozen=True)
class Gemm:
    """Matrix product `x [m, k]` with `weight [n, k]`, then an epilogue over `[m, n]`.

    dtypes as for `Conv2d`.
    """

    m: int
    n: int
    k: int
    in_dtype: str = "int8"
    weight_dtype: str = "int8"
    epilogue: Epilogue = field(default_factory=Epilogue)

    @property
    def operations(self) -> int:
        """Multiplications plus additions."""
        return 2 * self.m * self.n * self.k

    @property
    def bytes(self) -> int:
        """Bytes through device memory when every operand moves once."""
        return self.as_conv2d().bytes

    def as_conv2d(self) -> Conv2d:
        """The same arithmetic as a 1x1 convolution over m images of one pixel."""
        return Conv2d(
            n=self.m, h=1, w=1, c=self.k, k=self.n, r=1, s=1,
            in_dtype=self.in_dtype, weight_dtype=self.weight_dtype, epilogue=self.epilogue,
        )  # fmt: skip

    @property
    def x_shape(self) -> tuple[int, int]:
        return (self.m, self.k)

    @property
    def weight_shape(self) -> tuple[int, int]:
        return (self.n, self.k)

    @property
    def y_shape(self) -> tuple[int, int]:
        return (self.m, self.n)

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"


Workload = Conv2d | Gemm | Pool2d | Add | Concat | Quantize | Dequantize | Lookup | Relayout

_KINDS: dict[str, type] = {
    "conv2d": Conv2d,
    "gemm": Gemm,
    "pool2d": Pool2d,
    "add": Add,
    "concat": Concat,
    "quantize": Quantize,
    "dequantize": Dequantize,
    "lookup": Lookup,
    "relayout": Relayout,
}


def activation_layouts(workload: Workload) -> frozenset[str]:
    """Layouts that a template must know to compute the workload."""
    if isinstance(workload, Conv2d):
        return frozenset((workload.in_layout, workload.out_layout))
    return frozenset((NHWC,))


def to_dict(workload: Workload) -> dict[str, Any]:
    """A JSON-able mapping that `from_dict` reads back.

    A convolution names layouts where they are not NHWC, and an epilogue its table and that it
    concatenates where it does, so that older keys stay as they are.
    """
    kind = next(name for name, cls in _KINDS.items() if type(workload) is cls)
    fields = dataclasses.asdict(workload)
    if isinstance(workload, Conv2d):
        for name in ("in_layout", "out_layout"):
            if fields[name] == NHWC:
                del fields[name]
    if isinstance(workload, Conv2d | Gemm):
        for name in ("table", "concatenates"):
            if not getattr(workload.epilogue, name):
                del fields["epilogue"][name]
    return {"operator": kind, **fields}


def from_dict(mapping: Mapping[str, Any]) -> Workload:
    """The workload that `to_dict` wrote; raises ValueError for anything else."""
    fields = dict(mapping)
    cls = _KINDS.get(fields.pop("operator", None))
    if cls is None:
        raise ValueError(f"unknown operator in workload {mapping!r}; known: {sorted(_KINDS)}")
    try:
        if "epilogue" in fields:
            fields["epilogue"] = Epilogue(**_typed(Epilogue, fields["epilogue"]))
        return cls(**_typed(cls, fields))
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise ValueError(f"not a workload: {mapping!r} ({error})") from error


def _typed(cls: type, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a dataclass as JSON gave them, lists as tuples; TypeError for wrong types."""
    if not isinstance(fields, Mapping):
        raise TypeError(f"{cls.__name__} is {fields!r}, not a mapping")
    types = {field.name: str(field.type) for field in dataclasses.fields(cls)}
    checked = {}
    for name, value in fields.items():
        value = tuple(value) if isinstance(value, list) else value
        if name not in types or not _is_a(types[name], value):
            raise TypeError(f"{name} = {value!r}; {types.get(name, 'no such field')} is expected")
        checked[name] = value
    return checked


def _is_a(annotation: str, value: Any) -> bool:
    if annotation.startswith("tuple["):
        items = annotation.removeprefix("tuple[").removesuffix("]").split(", ")
        length = None if items[-1] == "..." else len(items)
        return (
            isinstance(value, tuple)
            and length in (None, len(value))
            and all(_is_a(items[0], item) for item in value)
        )
    if annotation == "int":
        return type(value) is int and value >= 0
    simple = {"str": str, "bool": bool, "Epilogue": Epilogue, "str | None": str | None}
    return isinstance(value, simple[annotation])


def key(workload: Workload) -> str:
    """A stable one-line text that names the workload in records."""
    return json.dumps(to_dict(workload), sort_keys=True, separators=(",", ":"))
