"""cuBLASLt's products of floats, over weights that are dequantised beforehand.

Factors are 16-bit floats or float8_e4m3fn. Products of the latter take four forms: scaled by rows
and columns or by one number, and summed in float32 or by the tensor cores alone, with fewer bits.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
from collections.abc import Sequence
from ctypes import byref, c_float
from dataclasses import dataclass, replace

import numpy as np

from autoq.libraries.cublaslt import COMPUTE_FLOAT32, Handle, Heuristic, Matmul, copies
from autoq.libraries.ranking import PeerTime, Way, fastest
from autoq.measure.arrays import random_case
from autoq.measure.cuda_bench import upload
from autoq.measure.job import Timing
from autoq.runtime.cuda.driver import Device, Memory, Stream
from autoq.templates.arrays.element import element
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.oracle.threads import in_threads

_E4M3 = "float8_e4m3fn"
# Multiply-adds of a reference: 512 rows of 4096 x 4096 x 4096.
_CHECKED_WORK = 1 << 33
_ROWS_A_THREAD = 128
# Of the output's root mean square. Outputs of 5 of these are rounded by 0.2%, in bfloat16 by 1.6%,
# and the library may add parts of a reduction in the output's type.
_ALLOWED = {"float16": 0.02, "bfloat16": 0.15, "float32": 0.02}
# What the tensor cores' sums of float8_e4m3fn may lose besides, see `FloatGemm.tolerance`.
_ALLOWED_E4M3 = 0.03


def nearest(product: FloatGemm) -> FloatGemm:
    """What cuBLASLt computes that is most like a product, of its type, alone."""
    narrow = product.in_dtype == _E4M3
    out = product.out_dtype if narrow or product.out_dtype == "float32" else product.in_dtype
    return replace(
        product, out_dtype=out, bias=False, activation="none", residual=False,
        x_scale=product.x_scale and narrow, batch=1,
    )  # fmt: skip


def difference(product: FloatGemm) -> str:
    """What that leaves out, to be said behind what it computes."""
    text = ", the weight dequantised beforehand" if product.quantised else ""
    text += ", one of the batch" if product.batch > 1 else ""
    left_out = [
        *(["scales of rows"] if product.x_scale and product.in_dtype != _E4M3 else []),
        *(["bias"] if product.bias else []),
        *([product.activation] if product.activation != "none" else []),
        *(["residual"] if product.residual else []),
    ]
    return text + (f", without {' and '.join(left_out)}" if left_out else "")


class FloatProducts:
    """x [m, k] times weight [n, k] transposed, both of the activations' type."""

    def __init__(self, ordinal: int = 0) -> None:
        self._device = Device(ordinal)
        self._stream = Stream()
        self._handle = Handle()
        self.version = self._handle.version

    def supports(self, layer: FloatGemm) -> bool:
        """Whether it is a product alone, of types that the library has."""
        alone = layer.activation == "none" and not layer.bias
        if layer.in_dtype == _E4M3:
            return alone and not layer.residual and layer.batch == 1
        return alone and layer.plain and layer.out_dtype in (layer.in_dtype, "float32")

    def prepare(self, layers: Sequence[FloatGemm]) -> None:
        """Nothing: its kernels are compiled already."""

    def measure(self, layer: FloatGemm, timing: Timing) -> PeerTime:
        """The fastest right algorithm; raises LibraryError for none."""
        product = _Product(self._handle, layer, self._device if timing.cold else None)
        self._device.synchronize()
        ways = [
            self._way(product, form, item)
            for form in product.forms
            for item in form.matmul.algorithms()
        ]
        return fastest(ways, self._stream, self._device, timing)

    def _way(self, product: _Product, form: _Form, algorithm: Heuristic) -> Way:
        def launch(index: int) -> None:
            product.launch(form, algorithm, index, self._stream)

        def check(y: np.ndarray) -> float:
            return product.largest_error(y, form)

        y, allowed = product.copies[0][2], product.allowed
        return Way(f"algorithm {algorithm.number}", form.name, launch, check, y, allowed)


@dataclass(frozen=True)
class _Form:
    """One way to put a product to the library; expected: float32 [checked rows, n]; alpha: of d.

    scales: on the device, to be kept as long as the product.
    """

    name: str
    matmul: Matmul
    expected: np.ndarray
    alpha: float = 1.0
    scales: tuple[Memory, ...] = ()

    @functools.cached_property
    def size(self) -> float:
        """Root mean square of what is expected."""
        return math.sqrt(float(np.mean(np.square(self.expected, dtype=np.float64))))


class _Product:
    """The matrices on the device, once, or so often that they pass twice the L2 cache.

    Column-major, y [n, m] = weight' x, or for a weight on the left y [m, n] = x' weight.
    """

    def __init__(self, handle: Handle, layer: FloatGemm, cold: Device | None) -> None:
        self._layer = layer
        (x, *x_scale), constants = random_case(layer, 0)
        weight = np.asarray(constants["weight"])
        if layer.in_dtype != _E4M3:
            weight = layer.dequantised(constants).astype(element(layer.in_dtype).dtype)
        count = min(layer.m, max(1, _CHECKED_WORK // (layer.n * layer.k)))
        self._rows = np.sort(np.random.default_rng(1).permutation(layer.m)[:count])
        sums = _sums(x[self._rows], weight)
        y_bytes = element(layer.out_dtype).bytes * layer.m * layer.n
        self.copies = [
            (upload(weight), upload(x), Memory(y_bytes))
            for _ in range(copies(x.nbytes + weight.nbytes + y_bytes, cold))
        ]
        self.allowed = _ALLOWED[layer.out_dtype]
        if layer.in_dtype != _E4M3:
            self.forms = [_Form("", self._matmul(handle), sums)]
            return
        self.allowed = max(self.allowed, _ALLOWED_E4M3)
        of_rows = x_scale[0] if layer.x_scale else np.ones(layer.m, np.float32)
        of_columns = np.asarray(constants["scale"], np.float32).reshape(layer.n)
        self.forms = self._forms(handle, sums, of_rows, of_columns)

    def _forms(
        self, handle: Handle, sums: np.ndarray, of_rows: np.ndarray, of_columns: np.ndarray
    ) -> list[_Form]:
        """Those of float8_e4m3fn, by the sums of the checked rows and all factors."""
        factors = (upload(of_columns), upload(of_rows))
        alpha = float(of_columns.mean() * of_rows.mean())
        scaled = sums * of_rows[self._rows, None] * of_columns
        forms = []
        for by_rows, fast in itertools.product((False, True), (False, True)):
            matmul = self._matmul(handle)
            if by_rows:
                matmul.scale_rows(*(factors[::-1] if self._layer.weight_left else factors))
            if fast:
                matmul.sum_fast()
            name = ("scales of rows" if by_rows else "one scale") + ", fast sums" * fast
            own = (scaled, 1.0, factors) if by_rows else (sums * np.float32(alpha), alpha)
            forms.append(_Form(name, matmul, *own))
        return forms

    def _matmul(self, handle: Handle) -> Matmul:
        layer = self._layer
        left, right = (layer.m, layer.n) if layer.weight_left else (layer.n, layer.m)
        dtypes = (layer.in_dtype, layer.out_dtype, "float32")
        return Matmul(handle, (left, right, layer.k), dtypes, COMPUTE_FLOAT32)

    def launch(self, form: _Form, item: Heuristic, index: int, stream: Stream) -> None:
        """Put the product on a stream, over one of the copies."""
        weight, x, y = self.copies[index % len(self.copies)]
        a, b = (x, weight) if self._layer.weight_left else (weight, x)
        factors = (byref(c_float(form.alpha)), byref(c_float(0.0)))
        form.matmul.launch(item, stream, factors, (a, b, y, y))

    def largest_error(self, y: np.ndarray, form: _Form) -> float:
        """That of the checked rows' elements, in units of their root mean square."""
        layer = self._layer
        found = y.view(element(layer.out_dtype).dtype).reshape(layer.y_shape)
        found = (found.T if layer.weight_left else found)[self._rows].astype(np.float32)
        error = float(np.abs(found - form.expected).max())
        # A NaN is no difference that a comparison with what is allowed would find.
        return (math.inf if math.isnan(error) else error) / form.size


def _sums(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """x weight' in float32, by as many threads as there are cores."""
    transposed = weight.astype(np.float32).T
    sums = np.empty((len(x), len(weight)), np.float32)

    def compute(rows: slice) -> None:
        np.matmul(x[rows].astype(np.float32), transposed, out=sums[rows])

    slices = [slice(at, at + _ROWS_A_THREAD) for at in range(0, len(x), _ROWS_A_THREAD)]
    in_threads(compute, slices, len(os.sched_getaffinity(0)))
    return sums


PRODUCTS = FloatProducts
"""The class of them, made with the number of a device."""
