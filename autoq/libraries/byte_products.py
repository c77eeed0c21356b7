"""cuBLASLt's products of int8 matrices, by a scale in int8 or as they are in int32."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from ctypes import byref, c_float, c_int32, c_void_p
from dataclasses import dataclass, replace

import numpy as np

from autoq.libraries.cublaslt import (
    COMPUTE_INT32,
    SCALE_BY_VECTOR,
    SCALE_BY_VECTOR_BETA_ZERO,
    Handle,
    Heuristic,
    Matmul,
    copies,
)
from autoq.libraries.ranking import PeerTime, Way, fastest
from autoq.measure.cuda_bench import upload
from autoq.measure.job import Timing
from autoq.runtime.cuda.driver import Device, Memory, Stream
from autoq.templates.arrays.element import element
from autoq.templates.epilogue import Epilogue, pack_scalars
from autoq.templates.operators.gemm import Gemm
from autoq.templates.oracle.random_arrays import random_array

Check = Callable[[np.ndarray, bool], int]

_CHECKED_ROWS = 64


def nearest(product: Gemm) -> Gemm:
    """What cuBLASLt computes that is most like a product.

    Bytes are int8, as is what shares a byte, and sums and floats come out as int32.
    """
    out = "int8" if element(product.epilogue.out_dtype).quantised else "int32"
    epilogue = Epilogue(out, uniform=product.epilogue.uniform)
    return replace(product, in_dtype="int8", weight_dtype="int8", epilogue=epilogue)


def difference(product: Gemm) -> str:
    """That these are not the product's types, where they are not."""
    return "" if nearest(product) == product else ", the nearest types that it has"


@dataclass(frozen=True)
class ByteMatrices:
    """x int8 [m, k], weight int8 [n, k], and how their product is scaled into int8.

    scale float32 [n], or alpha for all, unused where out_dtype is int32; residual of out_dtype
    [m, n] or None, which is added.
    """

    x: np.ndarray
    weight: np.ndarray
    scale: np.ndarray
    alpha: float
    residual: np.ndarray | None = None
    out_dtype: str = "int8"


class ByteProducts:
    """x [m, k] times weight [n, k] transposed, int8, into int8 or int32."""

    def __init__(self, ordinal: int = 0) -> None:
        self._device = Device(ordinal)
        self._stream = Stream()
        self._handle = Handle()
        self.version = self._handle.version

    def supports(self, layer: Gemm) -> bool:
        """Whether it is a product alone, of types that the library has."""
        alone = replace(layer.epilogue, uniform=False) in (Epilogue("int8"), Epilogue("int32"))
        return alone and layer.in_dtype == layer.weight_dtype == "int8"

    def prepare(self, layers: Sequence[Gemm]) -> None:
        """Nothing: its kernels are compiled already."""

    def measure(self, layer: Gemm, timing: Timing) -> PeerTime:
        """The fastest right algorithm; raises LibraryError for none."""
        matrices = _random(layer)
        return self.fastest(matrices, _RowCheck(layer, matrices), timing)

    def fastest(self, matrices: ByteMatrices, check: Check, timing: Timing) -> PeerTime:
        """The fastest right way to multiply matrices; raises LibraryError for none.

        check(y, per_channel) gives the largest difference of an element of the output, bytes of
        [m, n], from what it must be, scaled by `scale` or by `alpha`.
        """
        sets = _on_device(matrices, self._device if timing.cold else None)
        ways: list[Way] = []
        for per_channel in (False,) if matrices.out_dtype == "int32" else (False, True):
            product = _Product(self._handle, matrices, per_channel, sets)
            ways += [self._way(product, check, item) for item in product.matmul.algorithms()]
        self._device.synchronize()
        return fastest(ways, self._stream, self._device, timing)

    def _way(self, product: _Product, check: Check, algorithm: Heuristic) -> Way:
        def launch(index: int) -> None:
            product.launch(algorithm, index, self._stream)

        name = f"algorithm {algorithm.number}{product.scaling}"
        per_channel = product.per_channel
        return Way(name, "", launch, lambda y: check(y, per_channel), product.sets[0].y)


@dataclass(frozen=True)
class _Set:
    """The matrices in device memory; the residual is y where there is none."""

    scales: Memory
    weight: Memory
    x: Memory
    residual: Memory
    y: Memory


def _on_device(matrices: ByteMatrices, cold: Device | None) -> list[_Set]:
    """The matrices once, or so often that they pass twice the L2 cache of a device."""
    size = len(matrices.x) * len(matrices.weight) * np.dtype(matrices.out_dtype).itemsize
    scales, sets = upload(matrices.scale), []
    for _ in range(copies(matrices.x.nbytes + matrices.weight.nbytes + size, cold)):
        y = Memory(size)
        residual = y if matrices.residual is None else upload(matrices.residual)
        sets.append(_Set(scales, upload(matrices.weight), upload(matrices.x), residual, y))
    return sets


class _Product:
    """A way to scale the product of the sets; column-major, n the fastest axis of the output."""

    def __init__(
        self, handle: Handle, matrices: ByteMatrices, per_channel: bool, sets: Sequence[_Set]
    ) -> None:
        self.per_channel, self.sets = per_channel, sets
        added = matrices.residual is not None
        if matrices.out_dtype == "int32":
            self.scaling, mode, scale_dtype = "", 0, "int32"
            self._alpha, self._beta = c_int32(1), c_int32(added)
        else:
            self.scaling = ", a scale of each channel" if per_channel else ", one scale"
            by_vector = SCALE_BY_VECTOR if added else SCALE_BY_VECTOR_BETA_ZERO
            mode, scale_dtype = by_vector if per_channel else 0, "float32"
            self._alpha, self._beta = c_float(matrices.alpha), c_float(added)
        extents = (len(matrices.weight), *matrices.x.shape)
        dtypes = ("int8", matrices.out_dtype, scale_dtype)
        self.matmul = Matmul(handle, extents, dtypes, COMPUTE_INT32, mode)

    def launch(self, item: Heuristic, index: int, stream: Stream) -> None:
        """Put the product on a stream, computed by one algorithm over one of the sets."""
        own = self.sets[index % len(self.sets)]
        alpha = c_void_p(own.scales.address) if self.per_channel else byref(self._alpha)
        matrices = (own.weight, own.x, own.residual, own.y)
        self.matmul.launch(item, stream, (alpha, byref(self._beta)), matrices)


def _random(layer: Gemm) -> ByteMatrices:
    """Random bytes, scaled so that results spread over int8 and some of them meet its bounds."""
    rng = np.random.default_rng(0)
    x = random_array(rng, layer.x_shape, "int8")
    weight = random_array(rng, layer.weight_shape, "int8")
    spread = 74.0**2 * math.sqrt(layer.k)
    scale = (rng.uniform(40, 90, layer.n) / spread).astype(np.float32)
    return ByteMatrices(x, weight, scale, 60 / spread, out_dtype=layer.epilogue.out_dtype)


class _RowCheck:
    """Compares some rows of a product, chosen at random, with their reference."""

    def __init__(self, layer: Gemm, matrices: ByteMatrices) -> None:
        self._layer, self._matrices = layer, matrices
        self._rows = np.random.default_rng(1).permutation(layer.m)[:_CHECKED_ROWS]
        self._expected: dict[bool, np.ndarray] = {}

    def __call__(self, y: np.ndarray, per_channel: bool) -> int:
        """The largest difference of an element."""
        if per_channel not in self._expected:
            self._expected[per_channel] = self._reference(per_channel)
        found = y.view(self._layer.epilogue.out_dtype).reshape(self._layer.y_shape)[self._rows]
        return int(np.abs(found.astype(np.int64) - self._expected[per_channel]).max())

    def _reference(self, per_channel: bool) -> np.ndarray:
        few, n = replace(self._layer, m=len(self._rows)), self._layer.n
        scale = self._matrices.scale
        constants = {
            "weight": self._matrices.weight,
            "bias": np.zeros(n, np.int32),
            "scale": scale if per_channel else np.full(n, self._matrices.alpha, np.float32),
            "scalars": pack_scalars(low=-128.0, high=127.0),
        }
        x = self._matrices.x[self._rows]
        (y,) = few.reference_in_threads([x], constants, len(os.sched_getaffinity(0)))
        return y.astype(np.int64)


PRODUCTS = ByteProducts
"""The class of them, made with the number of a device."""
