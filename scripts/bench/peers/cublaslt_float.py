"""cuBLASLt's products of 16-bit floats, over weights that are dequantised beforehand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from ctypes import byref, c_float, c_int32, c_int64, c_size_t, c_uint64, c_void_p

import numpy as np

from autoq.measure.arrays import random_case
from autoq.measure.cuda_bench import upload
from autoq.measure.job import Timing
from autoq.runtime.cuda_driver import Device, Memory, Stream
from autoq.templates.element import element
from autoq.templates.operators.float_gemm import FloatGemm
from peers.cublaslt import Handle, Heuristic, call
from peers.peer import PeerTime
from peers.ranking import Way, fastest

_FLOAT32, _COMPUTE_FLOAT32, _TRANSPOSE, _DESC_TRANSA = 0, 68, 1, 3
_TYPES = {"float16": 2, "bfloat16": 14}
_CHECKED_ROWS = 64
# Of the output's root mean square: what rounding outputs to 16 bits may change.
_ALLOWED = {"float16": 4e-3, "bfloat16": 3e-2}


class CublasLtFloat:
    """x [m, k] times weight [n, k] transposed, both of the activations' type."""

    def __init__(self) -> None:
        self._device = Device()
        self._stream = Stream()
        self._handle = Handle()
        self.version = self._handle.version

    def supports(self, layer: FloatGemm) -> bool:
        return layer.activation == "none" and not layer.bias and layer.out_dtype == layer.in_dtype

    def prepare(self, layers: Sequence[FloatGemm]) -> None:
        """Nothing: its kernels are compiled already."""

    def measure(self, layer: FloatGemm, timing: Timing) -> PeerTime:
        product = _Product(self._handle, layer, self._device if timing.cold else None)
        self._device.synchronize()
        ways = [self._way(product, item) for item in product.algorithms()]
        return fastest(ways, self._stream, self._device, timing)

    def _way(self, product: _Product, algorithm: Heuristic) -> Way:
        def launch(index: int) -> None:
            product.launch(algorithm, index, self._stream)

        name = f"algorithm {algorithm.number}"
        return Way(name, "", launch, product.wrong, product.copies[0][2])


class _Product:
    """The matrices on the device, once, or so often that they pass twice the L2 cache.

    Column-major, y [n, m] = weight' x, or for a weight on the left y [m, n] = x' weight.
    """

    def __init__(self, handle: Handle, layer: FloatGemm, cold: Device | None) -> None:
        self._handle, self._layer = handle, layer
        (x,), constants = random_case(layer, 0)
        kind = element(layer.in_dtype).dtype
        weight = layer.dequantised(constants).astype(kind)
        rows = np.random.default_rng(1).permutation(layer.m)[:_CHECKED_ROWS]
        self._rows = rows
        self._expected = x[rows].astype(np.float32) @ weight.astype(np.float32).T
        size = x.nbytes + weight.nbytes + kind.itemsize * layer.m * layer.n
        sets = 1 if cold is None else 1 + min(64, -(-2 * cold.l2_bytes // size))
        self.copies = [
            (upload(weight), upload(x), Memory(kind.itemsize * layer.m * layer.n))
            for _ in range(sets)
        ]
        self._operation = c_void_p()
        call("cublasLtMatmulDescCreate", byref(self._operation), _COMPUTE_FLOAT32, _FLOAT32)
        call("cublasLtMatmulDescSetAttribute", self._operation, _DESC_TRANSA,
             byref(c_int32(_TRANSPOSE)), c_size_t(4))  # fmt: skip
        left, right = (layer.m, layer.n) if layer.weight_left else (layer.n, layer.m)
        self._layouts = [
            _layout(layer.in_dtype, *shape)
            for shape in ((layer.k, left), (layer.k, right), (left, right))
        ]

    def algorithms(self) -> list[Heuristic]:
        """What the heuristic proposes."""
        return self._handle.algorithms(self._operation, *self._layouts)

    def launch(self, item: Heuristic, index: int, stream: Stream) -> None:
        """Put the product on a stream, over one of the copies."""
        weight, x, y = self.copies[index % len(self.copies)]
        first, second = (x, weight) if self._layer.weight_left else (weight, x)
        a, b, d = self._layouts
        one, zero, workspace = c_float(1.0), c_float(0.0), self._handle.workspace
        call(
            "cublasLtMatmul", self._handle.handle, self._operation, byref(one),
            c_void_p(first.address), a, c_void_p(second.address), b, byref(zero),
            c_void_p(y.address), d, c_void_p(y.address), d, byref(item.algorithm),
            c_void_p(workspace.address), c_size_t(workspace.size), stream.handle,
        )  # fmt: skip

    def wrong(self, y: np.ndarray) -> int:
        """0 where the checked rows are right to rounding, else by how many times too far off."""
        layer = self._layer
        found = y.view(element(layer.in_dtype).dtype).reshape(layer.y_shape)
        found = (found.T if layer.weight_left else found)[self._rows].astype(np.float32)
        scale = math.sqrt(float(np.mean(np.square(self._expected, dtype=np.float64))))
        off = float(np.abs(found - self._expected).max()) / scale / _ALLOWED[layer.in_dtype]
        # Rounding of the largest elements counts by their own size.
        return 0 if off <= 6 else 1 + min(1000, math.ceil(off) if off == off else 1000)


def _layout(dtype: str, rows: int, columns: int) -> c_void_p:
    """A column-major matrix without gaps."""
    layout = c_void_p()
    call("cublasLtMatrixLayoutCreate", byref(layout), _TYPES[dtype], c_uint64(rows),
         c_uint64(columns), c_int64(rows))  # fmt: skip
    return layout
