"""cuBLASLt's strided batches of products of two activations, of int8 or of 16-bit floats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from ctypes import byref, c_float, c_int32
from dataclasses import dataclass, replace

import numpy as np

from autoq.libraries.cublaslt import (
    COMPUTE_FLOAT32,
    COMPUTE_INT32,
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
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.oracle.random_arrays import random_array

_CHECKED_PAIRS = 4
# Of the output's root mean square, as for `float_products`; bytes may round one step away.
_ALLOWED = {"float16": 0.02, "bfloat16": 0.15, "float32": 0.02, "int8": 1.0, "int32": 0.0}
# The library takes rows of bytes of multiples of these alone.
_BYTE_MULTIPLE = 16


def nearest(product: BatchedGemm) -> BatchedGemm:
    """What cuBLASLt computes that is most like a product: int8 for bytes, nothing behind it."""
    epilogue = product.epilogue
    if product.floating:
        out = epilogue.out_dtype if epilogue.out_dtype == "float32" else product.in_dtype
        return replace(product, epilogue=Epilogue(out))
    out = "int8" if element(epilogue.out_dtype).quantised else "int32"
    return replace(product, in_dtype="int8", other_dtype="int8", epilogue=Epilogue(out))


def difference(product: BatchedGemm) -> str:
    """That these are not the product's types, where they are not."""
    found = nearest(product)
    types = (product.in_dtype, product.other_dtype, product.epilogue.out_dtype)
    same = types == (found.in_dtype, found.other_dtype, found.epilogue.out_dtype)
    return "" if same else ", the nearest types that it has"


class BatchedProducts:
    """y [pairs, m, n] of x [pairs, m, k] and other, matrix behind matrix in memory.

    Other is [pairs, n, k], or for floats whatever the product says. Of bytes, k is filled up with
    zeros to a multiple of 16, and where y is int8 n is too: the library takes no other rows.
    """

    def __init__(self, ordinal: int = 0) -> None:
        self._device = Device(ordinal)
        self._stream = Stream()
        self._handle = Handle()
        self.version = self._handle.version

    def supports(self, layer: BatchedGemm) -> bool:
        """Any: the nearest that the library has is computed."""
        return True

    def prepare(self, layers: Sequence[BatchedGemm]) -> None:
        """Nothing: its kernels are compiled already."""

    def measure(self, layer: BatchedGemm, timing: Timing) -> PeerTime:
        """The fastest right algorithm of the nearest product; raises LibraryError for none.

        Bytes have two forms, sums in int32 and, where the product asks for bytes, int8.
        """
        product = nearest(layer)
        forms = [product]
        if product.epilogue.out_dtype == "int8":
            forms.append(replace(product, epilogue=Epilogue("int32")))
        ways: list[Way] = []
        for form in forms:
            batch = _Batch(self._handle, form, self._device if timing.cold else None)
            ways += [self._way(batch, item) for item in batch.matmul.algorithms()]
        self._device.synchronize()
        return fastest(ways, self._stream, self._device, timing)

    def _way(self, batch: _Batch, algorithm: Heuristic) -> Way:
        def launch(index: int) -> None:
            batch.launch(algorithm, index, self._stream)

        name = f"algorithm {algorithm.number}"
        y, allowed = batch.sets[0].y, _ALLOWED[batch.out_dtype]
        return Way(name, batch.form, launch, batch.largest_error, y, allowed)


@dataclass(frozen=True)
class _Set:
    """The matrices in device memory."""

    x: Memory
    other: Memory
    y: Memory


class _Batch:
    """The matrices on the device, once, or so often that they pass twice the L2 cache."""

    def __init__(self, handle: Handle, product: BatchedGemm, cold: Device | None) -> None:
        floating = product.floating
        self.out_dtype = product.epilogue.out_dtype
        self.form = "" if floating else self.out_dtype
        self._pairs, m, n, k = product.products, product.m, product.n, product.k
        padded_k = k if floating else -(-k // _BYTE_MULTIPLE) * _BYTE_MULTIPLE
        self._columns = -(-n // _BYTE_MULTIPLE) * _BYTE_MULTIPLE if self.out_dtype == "int8" else n
        as_it_lies = floating and product.other_order.endswith("n")
        rng = np.random.default_rng(0)
        kind = product.in_dtype
        self._x = np.zeros((self._pairs, m, padded_k), element(kind).dtype)
        self._x[..., :k] = random_array(rng, (self._pairs, m, k), kind)
        self._other = np.zeros((self._pairs, self._columns, padded_k), element(kind).dtype)
        self._other[:, :n, :k] = random_array(rng, (self._pairs, n, k), kind)
        self._alpha = 1.0 if floating else 60 / (74.0**2 * math.sqrt(k))
        self._m = m
        y_bytes = self._pairs * m * self._columns * element(self.out_dtype).bytes
        lying = self._other.transpose(0, 2, 1) if as_it_lies else self._other
        lying = np.ascontiguousarray(lying)
        self.sets = [
            _Set(upload(self._x), upload(lying), Memory(y_bytes))
            for _ in range(copies(self._x.nbytes + lying.nbytes + y_bytes, cold))
        ]
        whole = self.out_dtype == "int32"
        dtypes = (kind, self.out_dtype, "int32" if whole else "float32")
        self._factors = (c_int32(1), c_int32(0)) if whole else (
            c_float(self._alpha), c_float(0.0))  # fmt: skip
        compute = COMPUTE_FLOAT32 if floating else COMPUTE_INT32
        extents = (self._columns, m, padded_k)
        self.matmul = Matmul(handle, extents, dtypes, compute, 0, self._pairs, as_it_lies)

    def launch(self, item: Heuristic, index: int, stream: Stream) -> None:
        """Put the products on a stream, over one of the sets."""
        own = self.sets[index % len(self.sets)]
        alpha, beta = self._factors
        matrices = (own.other, own.x, own.y, own.y)
        self.matmul.launch(item, stream, (byref(alpha), byref(beta)), matrices)

    def largest_error(self, y: np.ndarray) -> float:
        """That of some pairs' elements: in steps, or of floats by their root mean square."""
        kind = element(self.out_dtype).dtype
        shape = (self._pairs, self._m, self._columns)
        pairs = np.random.default_rng(1).permutation(self._pairs)[:_CHECKED_PAIRS]
        found = y.view(kind).reshape(shape)[pairs].astype(np.float64)
        sums = self._x[pairs].astype(np.float64) @ self._other[pairs].astype(
            np.float64).transpose(0, 2, 1)  # fmt: skip
        if self.out_dtype == "int8":
            sums = np.clip(np.rint(sums * self._alpha), -128, 127)
        difference = float(np.abs(found - sums).max())
        floating = element(self.out_dtype).floating
        return difference / float(np.sqrt(np.mean(sums**2))) if floating else difference


PRODUCTS = BatchedProducts
"""The class of them, made with the number of a device."""
