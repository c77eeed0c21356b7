"""cuBLASLt's int8 matrix product for 1x1 convolutions of stride 1: every algorithm it proposes."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref, c_float, c_int32, c_int64, c_size_t, c_uint64, c_void_p

import numpy as np

from autoq.measure.cuda_bench import upload
from autoq.measure.job import Timing
from autoq.runtime.cuda_driver import Device, Memory, Stream
from autoq.templates.operators.conv2d import Conv2d
from peers.cublaslt import Handle, Heuristic, call
from peers.layer import Layer, LayerData, alpha
from peers.peer import PeerTime
from peers.ranking import Way, fastest

_FLOAT32, _INT8, _COMPUTE_INT32, _TRANSPOSE = 0, 3, 72, 1
_DESC_POINTER_MODE, _DESC_TRANSA = 2, 3
_POINTER_HOST, _POINTER_VECTOR_BETA_ZERO, _POINTER_VECTOR_BETA_HOST = 0, 3, 4


class CublasLtInt8:
    """weight [k, c] times x [pixels, c] transposed, int8 in and out, scaled in float32.

    The scale is one number, or one of each channel; a residual is the matrix C.
    """

    def __init__(self) -> None:
        self._device = Device()
        self._stream = Stream()
        self._handle = Handle()
        self.version = self._handle.version

    def supports(self, layer: Layer) -> bool:
        workload = layer.workload
        return (
            (workload.r, workload.s, workload.stride) == (1, 1, (1, 1))
            and not any(workload.padding)
            and workload.groups == 1
        )

    def prepare(self, layers: Sequence[Layer]) -> None:
        """Nothing: its kernels are compiled already."""

    def measure(self, layer: Layer, timing: Timing) -> PeerTime:
        workload = layer.workload
        data = LayerData(workload)
        product = _Product(self._handle, workload, data)
        ways = [
            self._way(product, algorithm, per_channel)
            for per_channel in (False, True)
            for algorithm in product.algorithms(per_channel)
        ]
        self._device.synchronize()
        return fastest(ways, self._stream, self._device, timing)

    def _way(self, product: _Product, algorithm: Heuristic, per_channel: bool) -> Way:
        def launch(index: int) -> None:
            product.launch(algorithm, per_channel, self._stream)

        def check(y: np.ndarray) -> int:
            return product.data.max_steps(y, per_channel)

        scaling = "a scale of each channel" if per_channel else "one scale"
        return Way(f"algorithm {algorithm.number}, {scaling}", "", launch, check, product.y)


class _Product:
    """The matrices of a layer on the device; column-major, k the fastest axis of the output."""

    def __init__(self, handle: Handle, workload: Conv2d, data: LayerData) -> None:
        self.data = data
        self._handle = handle
        pixels = workload.n * workload.p * workload.q
        self._weight, self._x = upload(data.weight), upload(data.x)
        self.y = Memory(pixels * workload.k)
        self._residual = None if data.residual is None else upload(data.residual)
        self._scales = upload(data.scale)
        self._alpha, self._zero, self._one = c_float(alpha(workload)), c_float(0.0), c_float(1.0)
        self._layouts = (
            _layout(workload.c, workload.k),
            _layout(workload.c, pixels),
            _layout(workload.k, pixels),
        )
        vector = _POINTER_VECTOR_BETA_HOST if self._residual else _POINTER_VECTOR_BETA_ZERO
        self._operations = {False: _operation(_POINTER_HOST), True: _operation(vector)}

    def algorithms(self, per_channel: bool) -> list[Heuristic]:
        """What the heuristic proposes."""
        return self._handle.algorithms(self._operations[per_channel], *self._layouts)

    def launch(self, item: Heuristic, per_channel: bool, stream: Stream) -> None:
        """Put the product on a stream, computed by one algorithm."""
        a, b, d = self._layouts
        addend = self.y if self._residual is None else self._residual
        factor = c_void_p(self._scales.address) if per_channel else byref(self._alpha)
        beta = byref(self._zero if self._residual is None else self._one)
        workspace = self._handle.workspace
        call(
            "cublasLtMatmul", self._handle.handle, self._operations[per_channel], factor,
            c_void_p(self._weight.address), a, c_void_p(self._x.address), b, beta,
            c_void_p(addend.address), d, c_void_p(self.y.address), d,
            byref(item.algorithm), c_void_p(workspace.address), c_size_t(workspace.size),
            stream.handle,
        )  # fmt: skip


def _layout(rows: int, columns: int) -> c_void_p:
    """A column-major int8 matrix without gaps."""
    layout = c_void_p()
    call("cublasLtMatrixLayoutCreate", byref(layout), _INT8, c_uint64(rows), c_uint64(columns),
          c_int64(rows))  # fmt: skip
    return layout


def _operation(pointer_mode: int) -> c_void_p:
    """int8 with int32 sums, scaled in float32; the first matrix is transposed."""
    operation = c_void_p()
    call("cublasLtMatmulDescCreate", byref(operation), _COMPUTE_INT32, _FLOAT32)
    for attribute, value in ((_DESC_TRANSA, _TRANSPOSE), (_DESC_POINTER_MODE, pointer_mode)):
        call("cublasLtMatmulDescSetAttribute", operation, attribute, byref(c_int32(value)),
              c_size_t(4))  # fmt: skip
    return operation
