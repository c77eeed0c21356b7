"""What libraries take for products that pruned ones are measured beside."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cases.pruned_cases import PrunedCase
from peers.cusparse_blocked_ell import BlockedEll, BlockedProduct

from autoq.errors import LibraryError
from autoq.libraries.byte_products import ByteProducts
from autoq.libraries.float_products import FloatProducts
from autoq.measure.job import Timing

PEERS = ("cublaslt", "cusparselt", "cusparse_csr", "blocked_ell")
_TIMING = Timing(repeat=9, min_seconds=2e-3, overlapped=True)
_SECONDS = 60


def peer_times(
    cases: Sequence[PrunedCase], names: Sequence[str]
) -> Iterator[tuple[PrunedCase, dict[str, Any]]]:
    """A row for each peer that computes a case's product or one of as many zeros.

    cublaslt: the dense product, float32 in torch's. cusparselt: of 2:4 weights. cusparse_csr: of
    single weights of floats. blocked_ell: of blocks, for bytes and 16-bit floats.
    """
    dense: dict[Any, dict[str, Any]] = {}
    for case in cases:
        if "cublaslt" in names:
            if case.dense not in dense:
                dense[case.dense] = _dense(case)
            yield case, dense[case.dense]
        if "blocked_ell" in names and case.pattern.kind == "bw":
            yield case, _blocked(case)
        asked = {"cusparselt": case.two_four, "cusparse_csr": case.pattern.kind == "ew"}
        for name, has_one in asked.items():
            if name in names and has_one and (name, case.dense.in_dtype) != _NONE:
                yield case, {"peer": name, **_in_torch(case, name)}


_NONE = ("cusparse_csr", "int8")
"""torch has no such product of bytes."""


def _dense(case: PrunedCase) -> dict[str, Any]:
    work = case.dense
    if work.in_dtype == "float32":
        return {"peer": "cublas", **_in_torch(case, "dense")}
    kind: Any = ByteProducts if work.in_dtype == "int8" else FloatProducts
    return {"peer": "cublaslt", "us": kind().measure(work, _TIMING).seconds * 1e6}


def _blocked(case: PrunedCase) -> dict[str, Any]:
    """cuSPARSE takes the weight as its left side, and the same number of blocks in each row."""
    work = case.dense
    row: dict[str, Any] = {"peer": "blocked_ell", "us": None}
    product = BlockedProduct(
        work.n, work.m, work.k, case.pattern.granularity, case.sparsity, work.in_dtype
    )
    try:
        return {**row, "us": BlockedEll().measure(product, _TIMING).seconds * 1e6}
    except LibraryError as error:
        return {**row, "failure": str(error)}


def _in_torch(case: PrunedCase, kind: str) -> dict[str, Any]:
    """A process of its own times torch's product."""
    work = case.dense
    extents = f"{work.m},{work.n},{work.k},{work.in_dtype},{case.sparsity}"
    script = Path(__file__).with_name("torch_pruned_times.py")
    done = subprocess.run(
        [sys.executable, script, kind, extents],
        capture_output=True, text=True, timeout=_SECONDS, check=False,
    )  # fmt: skip
    word, *failure = (done.stdout.splitlines() or ["-"])[-1].split(maxsplit=1)
    if word == "-":
        return {"us": None, "failure": " ".join(failure) or done.stderr[-200:]}
    return {"us": float(word)}
