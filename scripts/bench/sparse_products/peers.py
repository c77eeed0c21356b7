"""Peers of sparse cases: cuBLASLt's dense products, cuSPARSE's of Blocked-ELL matrices, and the
kernels of Magicube and vectorSparse where there are checkouts of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cases.sparse_cases import SparseCase
from peers.cusparse_blocked_ell import BlockedEll, BlockedProduct
from peers.vector_kernels import KERNELS, MAGICUBE, VectorKernels

from autoq.errors import AutoqError
from autoq.libraries.byte_products import ByteProducts
from autoq.libraries.float_products import FloatProducts
from autoq.libraries.ranking import PeerTime
from autoq.measure.job import Timing
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.vector_matrix import VectorMatrix

_BYTES = ("int8", "int8")
PEERS = ("int8", "float16", "blocked_ell_int8", "blocked_ell_float16", *KERNELS)


class Peers:
    """The libraries beside which cases are timed, each product once."""

    def __init__(
        self, names: Sequence[str], blocks: Sequence[int], timing: Timing, quick: bool,
        checkouts: Mapping[str, Path],
    ) -> None:  # fmt: skip
        self._names, self._blocks, self._timing, self._quick = names, blocks, timing, quick
        self._bytes, self._floats, self._blocked = ByteProducts(), FloatProducts(), BlockedEll()
        self.versions = {"cublasLt": self._bytes.version, "cusparse": self._blocked.version}
        self._kernels = {name: VectorKernels(name, path) for name, path in checkouts.items()}
        self._found: dict[Any, tuple[float | None, str]] = {}

    def rows(self, case: SparseCase) -> Iterator[dict[str, Any]]:
        """A row for each peer of a case, with the way that it took or why it has none."""
        workload = case.workload
        extents = (workload.m, workload.n, workload.k)
        sparsity = (
            case.sparsity or 1 - workload.structure.blocks / workload.vector_rows / workload.k
        )
        for name in self._names:
            if name in KERNELS:
                if name != MAGICUBE or (workload.weight_dtype, workload.in_dtype) == _BYTES:
                    yield self._own_matrix(case, name)
            elif name in ("int8", "float16"):
                product: Any = (
                    Gemm(*extents)
                    if name == "int8"
                    else FloatGemm(*extents, weight_dtype="float16")
                )
                yield self._row(case, name, product)
            else:
                dtype = name.removeprefix("blocked_ell_")
                for block in dict.fromkeys((workload.vector, *self._blocks)):
                    blocked = BlockedProduct(*extents, block, round(sparsity, 3), dtype)
                    yield self._row(case, f"{name} {block}", blocked)

    def _row(self, case: SparseCase, name: str, product: Any) -> dict[str, Any]:
        if product not in self._found:
            try:
                time = self._time(product)
                self._found[product] = (time.seconds * 1e6, time.what)
            except AutoqError as error:
                self._found[product] = (None, str(error))
        us, what = self._found[product]
        return {"case": case.name, "sparsity": case.sparsity, "peer": name, "us": us, "what": what}

    def _own_matrix(self, case: SparseCase, name: str) -> dict[str, Any]:
        """A row of a kernel that multiplies the case's own matrix."""
        (b, *_), constants = case.arrays()
        own = case.workload
        arrays = (np.asarray(constants[part]) for part in ("pointers", "columns", "values"))
        matrix = VectorMatrix(own.m, own.k, own.vector, *arrays)
        try:
            time = self._kernels[name].measure(matrix, b, self._timing)
            us, what = time.seconds * 1e6, time.what
        except AutoqError as error:
            us, what = None, str(error)
        return {"case": case.name, "sparsity": case.sparsity, "peer": name, "us": us, "what": what}

    def _time(self, product: Any) -> PeerTime:
        if isinstance(product, BlockedProduct):
            return self._blocked.measure(product, self._timing, self._quick)
        library = self._bytes if isinstance(product, Gemm) else self._floats
        return library.measure(product, self._timing)
