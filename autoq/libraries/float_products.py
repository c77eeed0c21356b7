"""cuBLASLt's products of 16-bit floats, over weights that are dequantised beforehand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from ctypes import byref, c_float
from dataclasses import replace

import numpy as np

from autoq.libraries.cublaslt import COMPUTE_FLOAT32, Handle, Heuristic, Matmul, copies
from autoq.libraries.ranking import PeerTime, Way, fastest
from autoq.measure.arrays import random_case
from autoq.measure.cuda_bench import upload
from autoq.measure.job import Timing
from autoq.runtime.cuda.driver import Device, Memory, Stream
from autoq.templates.element import element
from autoq.templates.operators.float_gemm import FloatGemm

_CHECKED_ROWS = 64
# Of the output's root mean square. Outputs of 5 of these are rounded by 0.2%, in bfloat16 by 1.6%,
# and the library may add parts of a reduction in the output's type.
_ALLOWED = {"float16": 0.02, "bfloat16": 0.15, "float32": 0.02}


def nearest(product: FloatGemm) -> FloatGemm:
    """What cuBLASLt computes that is most like a product: of its type if of 16 bits, alone."""
    widened = element(product.in_dtype).bits < 16
    kind = "bfloat16" if widened else product.in_dtype
    out = "float32" if product.out_dtype == "float32" else kind
    return replace(
        product, in_dtype=kind, weight_dtype=kind if widened else product.weight_dtype,
        out_dtype=out, bias=False, activation="none", residual=False, x_scale=False, batch=1,
    )  # fmt: skip


def difference(product: FloatGemm) -> str:
    """What that leaves out, to be said behind what it computes."""
    text = ", the weight dequantised beforehand" if product.quantised else ""
    text += ", one of the batch" if product.batch > 1 else ""
    left_out = [
        *(["scales of rows"] if product.x_scale else []),
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
        """Whether it is a product alone, of a type that the library has."""
        alone = layer.activation == "none" and not layer.bias and layer.plain
        return alone and layer.out_dtype in (layer.in_dtype, "float32")

    def prepare(self, layers: Sequence[FloatGemm]) -> None:
        """Nothing: its kernels are compiled already."""

    def measure(self, layer: FloatGemm, timing: Timing) -> PeerTime:
        """The fastest right algorithm; raises LibraryError for none."""
        product = _Product(self._handle, layer, self._device if timing.cold else None)
        self._device.synchronize()
        ways = [self._way(product, item) for item in product.matmul.algorithms()]
        return fastest(ways, self._stream, self._device, timing)

    def _way(self, product: _Product, algorithm: Heuristic) -> Way:
        def launch(index: int) -> None:
            product.launch(algorithm, index, self._stream)

        name = f"algorithm {algorithm.number}"
        y, allowed = product.copies[0][2], product.allowed
        return Way(name, "", launch, product.largest_error, y, allowed)


class _Product:
    """The matrices on the device, once, or so often that they pass twice the L2 cache.

    Column-major, y [n, m] = weight' x, or for a weight on the left y [m, n] = x' weight.
    """

    def __init__(self, handle: Handle, layer: FloatGemm, cold: Device | None) -> None:
        self._layer = layer
        self.allowed = _ALLOWED[layer.out_dtype]
        (x,), constants = random_case(layer, 0)
        kind = element(layer.in_dtype).dtype
        weight = layer.dequantised(constants).astype(kind)
        rows = np.random.default_rng(1).permutation(layer.m)[:_CHECKED_ROWS]
        self._rows = rows
        self._expected = x[rows].astype(np.float32) @ weight.astype(np.float32).T
        y_bytes = element(layer.out_dtype).bytes * layer.m * layer.n
        self.copies = [
            (upload(weight), upload(x), Memory(y_bytes))
            for _ in range(copies(x.nbytes + weight.nbytes + y_bytes, cold))
        ]
        left, right = (layer.m, layer.n) if layer.weight_left else (layer.n, layer.m)
        dtypes = (layer.in_dtype, layer.out_dtype, "float32")
        self.matmul = Matmul(handle, (left, right, layer.k), dtypes, COMPUTE_FLOAT32)

    def launch(self, item: Heuristic, index: int, stream: Stream) -> None:
        """Put the product on a stream, over one of the copies."""
        weight, x, y = self.copies[index % len(self.copies)]
        a, b = (x, weight) if self._layer.weight_left else (weight, x)
        factors = (byref(c_float(1.0)), byref(c_float(0.0)))
        self.matmul.launch(item, stream, factors, (a, b, y, y))

    def largest_error(self, y: np.ndarray) -> float:
        """Of the elements of the checked rows, in units of their root mean square."""
        layer = self._layer
        found = y.view(element(layer.out_dtype).dtype).reshape(layer.y_shape)
        found = (found.T if layer.weight_left else found)[self._rows].astype(np.float32)
        scale = math.sqrt(float(np.mean(np.square(self._expected, dtype=np.float64))))
        # A NaN is no difference that a comparison with what is allowed would find.
        return float(np.nan_to_num(np.abs(found - self._expected), nan=np.inf).max()) / scale


PRODUCTS = FloatProducts
"""The class of them, made with the number of a device."""
