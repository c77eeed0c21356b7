"""The workload that `autoq gemm` is asked for, in the words of its options."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from autoq.errors import InputError
from autoq.templates.arrays.element import ELEMENTS, element
from autoq.templates.epilogue import ACTIVATIONS, Epilogue
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm

FACTORS = ("s8", "u8", "s4", "u4", "f16", "bf16", "f32", "e4m3")
"""Element types of a factor, as PTX calls them."""

FLOAT_OUTPUTS = ("f16", "bf16", "f32")
INTEGER_OUTPUTS = ("s8", "u8", "s4", "u4", "s32", *FLOAT_OUTPUTS)
RESIDUALS = ("s8", "u8", "s4", "u4", *FLOAT_OUTPUTS)
SCALES = ("column", "row")

_DTYPES = {row.ptx: row.name for row in ELEMENTS.values() if row.ptx}
# Kernels count the values of an array in 32 bits.
_MOST_VALUES = 2**31 - 1

Product = Gemm | FloatGemm | BatchedGemm


def short(dtype: str) -> str:
    """The short name of a dtype: "f16" of float16."""
    return element(dtype).ptx or dtype


@dataclass(frozen=True)
class ProductRequest:
    """A product `[m, k]` times `[k, n]` in the words of the command line.

    a, b, out and residual are element types by their short or long names, out None for the usual
    one, residual None for none; group, zero_points, bias and activation are as in `FloatGemm`.
    scale: what sums are scaled by, "column", "row" or both, with a comma between, None for that
    of the weight, and of integers to bytes "one" for all, without bias or zero points. batch:
    products of this shape; those of integers are of two activations, with one scale, and B lies
    column by column.
    """

    m: int
    n: int
    k: int
    a: str
    b: str
    out: str | None = None
    group: int = 0
    zero_points: bool = False
    bias: bool = False
    activation: str = "none"
    scale: str | None = None
    residual: str | None = None
    batch: int = 1

    def workload(self) -> Product:
        """The workload; raises InputError for extents and types that make no product."""
        self._check_extents()
        a, b = _dtype("--a", self.a, FACTORS), _dtype("--b", self.b, FACTORS)
        if element(a).floating or element(b).floating:
            return self._of_floats(a, b)
        if self.zero_points:
            raise InputError(
                f"--zero-points: needs a factor of floats; a product of {short(a)} and {short(b)} "
                "always has zero points"
            )
        return self._of_integers(a, b) if self.batch == 1 else self._of_batches(a, b)

    def _of_floats(self, a: str, b: str) -> FloatGemm:
        left, right = element(a).floating, element(b).floating
        if left and right and a != b:
            raise InputError(f"--a {self.a} --b {self.b}: factors of floats are of the same type")
        if left and right and (self.group or self.zero_points):
            option = f"--group {self.group}" if self.group else "--zero-points"
            raise InputError(f"{option}: is for a factor of integers beside one of floats")
        x, weight = (a, b) if left else (b, a)
        usual = x if x in map(_DTYPES.get, FLOAT_OUTPUTS) else "float16"
        out = usual if self.out is None else _dtype("--out", self.out, FLOAT_OUTPUTS)
        residual = self.residual is not None
        if residual and _dtype("--residual", self.residual, FLOAT_OUTPUTS) != out:
            raise InputError(f"--residual {self.residual!r}: is of the result's type, {short(out)}")
        rows, columns = (self.m, self.n) if left else (self.n, self.m)
        product = FloatGemm(
            rows, columns, self.k, x, weight, out, self.group, self.zero_points, self.bias,
            self.activation, not left, residual=residual, batch=self.batch,
        )  # fmt: skip
        return replace(product, x_scale=self._scales_x(product))

    def _scales_x(self, product: FloatGemm) -> bool:
        """Whether the rows or columns that are x's have scales; the weight's follow from it."""
        x, weight = ("column", "row") if product.weight_left else ("row", "column")
        scales = self._scales(default=weight)
        if self.scale is not None and weight in scales and not product.scaled:
            raise InputError(
                f"--scale {weight}: a weight of {short(product.weight_dtype)} has none"
            )
        if weight not in scales and product.scaled:
            raise InputError(
                f"--scale {self.scale}: a weight of {short(product.weight_dtype)} always has scales"
                f" by {weight}; add it"
            )
        return x in scales

    def _scales(self, default: str) -> list[str]:
        scales = (default if self.scale is None else self.scale).split(",")
        if not set(scales) <= set(SCALES):
            raise InputError(
                f"--scale {self.scale!r}: {', '.join(SCALES)} or row,column; of bytes, one"
            )
        return scales

    def _check_extents(self) -> None:
        extents = (self.m, self.n, self.k)
        if min(extents) < 1:
            raise InputError(f"M, N, K = {listed(extents)}: each is at least 1")
        for option, value, least in (("--group", self.group, 0), ("--batch", self.batch, 1)):
            if value < least:
                raise InputError(f"{option} {value}: at least {least}")
        if self.batch * max(i * j for i, j in itertools.combinations(extents, 2)) > _MOST_VALUES:
            batch = f" with --batch {self.batch}" if self.batch > 1 else ""
            raise InputError(
                f"M, N, K = {listed(extents)}{batch}: an array has at most {_MOST_VALUES} values"
            )

    def _of_integers(self, a: str, b: str) -> Gemm:
        out, residual = self._results()
        if self.scale == "one":
            if self.bias or residual or self.group or self.activation != "none":
                raise InputError("--scale one: takes bytes as they are scaled, without more behind")
            return Gemm(self.m, self.n, self.k, a, b, Epilogue(out, uniform=True))
        scales = self._scales(default="column")
        given = {f"--scale {self.scale}": self.scale, "--bias": self.bias, "--residual": residual}
        option = next((name for name, value in given.items() if value), None)
        if out == "int32" and option is not None:
            raise InputError(f"{option}: is not for the bare sums of s32; choose another --out")
        if "column" not in scales:
            raise InputError(
                f"--scale {self.scale}: a product of integers always has scales by column; add it"
            )
        self._check_group(out)
        activation, table = self._integer_activation(out)
        epilogue = Epilogue(
            out, residual, table=table, row_scale="row" in scales, float_bias=self.bias,
            activation=activation, scale_group=self.group,
        )  # fmt: skip
        return Gemm(self.m, self.n, self.k, a, b, epilogue)

    def _of_batches(self, a: str, b: str) -> BatchedGemm:
        options = {
            f"--scale {self.scale}": self.scale, "--bias": self.bias,
            f"--group {self.group}": self.group,
        }  # fmt: skip
        for option, given in options.items():
            if given:
                raise InputError(
                    f"{option}: products of integers with --batch {self.batch} have one scale"
                )
        out, residual = self._results()
        activation, table = self._integer_activation(out)
        epilogue = Epilogue(out, residual, table=table, activation=activation)
        return BatchedGemm(
            self.batch, self.m, self.n, self.k, in_dtype=a, other_dtype=b, epilogue=epilogue
        )

    def _results(self) -> tuple[str, str | None]:
        """Types of the result of integers and of the residual."""
        residual = self.residual
        if residual is not None:
            residual = _dtype("--residual", residual, RESIDUALS)
        return _dtype("--out", self.out or "s8", INTEGER_OUTPUTS), residual

    def _check_group(self, out: str) -> None:
        if self.group > 0 and not element(out).floating:
            raise InputError(
                f"--group {self.group}: sums of groups are added as floats, not to {short(out)}; "
                f"choose --out {', '.join(FLOAT_OUTPUTS)}"
            )
        if self.group and self.k % self.group:
            raise InputError(f"group {self.group} does not divide k = {self.k}")

    def _integer_activation(self, out: str) -> tuple[str, bool]:
        """The epilogue's activation, and whether a table of bytes takes its place."""
        if self.activation not in ACTIVATIONS:
            raise InputError(f"activation {self.activation!r}: one of {', '.join(ACTIVATIONS)}")
        if self.activation == "none" or element(out).floating:
            return self.activation, False
        if self.activation == "relu" and out != "int32":
            raise InputError(
                f"--activation relu: a product that gives {short(out)} always has bounds, of which "
                "ReLU is one"
            )
        if out not in ("int8", "uint8"):
            raise InputError(f"--activation {self.activation}: is not for results of {short(out)}")
        return "none", True

    def __str__(self) -> str:
        workload = self.workload()
        a, b = workload.factors
        group = f" in groups of {self.group}" if self.group else ""
        many = f"{self.batch} times " if self.batch > 1 else ""
        return (
            f"{many}{short(a)} [{self.m}, {self.k}] x {short(b)} [{self.k}, {self.n}]{group} -> "
            f"{short(workload.outputs[0].dtype)} [{self.m}, {self.n}]"
        )


def _dtype(option: str, name: str, known: tuple[str, ...]) -> str:
    """The dtype of a short or long name; InputError unless it is among the known short ones."""
    found = _DTYPES.get(name, name)
    if found not in (_DTYPES[each] for each in known):
        raise InputError(f"{option} {name!r}: choose from {', '.join(known)}")
    return found


def listed(extents: tuple[int, ...]) -> str:
    """Extents with commas between them."""
    return ", ".join(map(str, extents))
