"""What libraries take for products that pruned ones are measured beside."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cases.pruned_cases import TILES, PrunedCase
from peers.cusparse_blocked_ell import BlockedEll, BlockedProduct

from autoq.errors import LibraryError
from autoq.libraries.byte_products import ByteProducts
from autoq.libraries.float_products import FloatProducts
from autoq.measure.job import Timing
from autoq.templates.operators.conv2d import Conv2d
from pruned_products.ablation import KINDS as ABLATION

PEERS = ("cublaslt", "cusparselt", "cusparse_csr", "blocked_ell", "ablation")
_TIMING = Timing(repeat=9, min_seconds=2e-3, overlapped=True)
_SECONDS = 60
_WHOLE = {"cublaslt": 4, "cusparselt": 32, "blocked_ell": 16}
"""What libraries want the extents of a product to be multiples of."""
_STEPS_AT = 0.75


def peer_times(
    cases: Sequence[PrunedCase], names: Sequence[str]
) -> Iterator[tuple[PrunedCase, dict[str, Any]]]:
    """A row for each peer that computes a case's product or one of as many zeros.

    cublaslt: the dense product, float32 in torch's. cusparselt: of 2:4 weights. cusparse_csr: of
    single weights of floats. blocked_ell: of blocks, for bytes and 16-bit floats. ablation: of
    tiles of 16-bit floats at one sparsity, the steps of `ablation.py`. What a library's product
    has more rows or outputs for, as it takes whole multiples, is its row's `padded`.
    """
    dense: dict[Any, dict[str, Any]] = {}
    asked: dict[str, tuple[str, list[PrunedCase]]] = {}
    for case in cases:
        if "cublaslt" in names and _of_tensor_cores(case):
            if case.dense not in dense:
                dense[case.dense] = _dense(case)
            yield case, dense[case.dense]
        if "blocked_ell" in names and case.pattern.kind == "bw":
            yield case, _blocked(case)
        for name, kind in _of_torch(case):
            if name in names:
                extents = _extents(_padded(case.dense, name))
                text = f"{kind},{extents},{case.sparsity if kind != 'dense' else 0}"
                asked.setdefault(text, (kind, []))[1].append(case)
    for text, row in _in_torch(list(asked)).items():
        kind, own = asked[text]
        for case in own:
            peer = "cublas" if kind == "dense" else kind
            yield case, {"peer": peer, **_said(case.dense, kind), **row}


def _of_tensor_cores(case: PrunedCase) -> bool:
    """Whether cuBLASLt's own bench has the dense product."""
    return not isinstance(case.dense, Conv2d) and case.dense.in_dtype != "float32"


def _of_torch(case: PrunedCase) -> Iterator[tuple[str, str]]:
    """Peers whose products torch computes, and which of its products."""
    if case.dense.in_dtype == "float32":
        yield "cublaslt", "dense"
    if case.two_four:
        yield "cusparselt", "cusparselt"
    if case.pattern.kind == "ew" and case.dense.in_dtype != "int8":  # it has none of bytes
        yield "cusparse_csr", "cusparse_csr"
    steps = case.pattern == TILES and case.sparsity == _STEPS_AT
    if steps and case.dense.in_dtype == "float16":
        yield from (("ablation", kind) for kind in ABLATION)


def _padded(work: Any, peer: str) -> Any:
    """The product with the rows and outputs that a library asks for."""
    whole = _WHOLE.get(peer, 1)
    if peer == "cublaslt" and work.in_dtype != "int8":
        return work
    rows = work.m if peer == "cublaslt" else -(-work.m // whole) * whole
    return replace(work, m=rows, n=-(-work.n // whole) * whole)


def _said(work: Any, peer: str) -> dict[str, str]:
    """The extents of a product that is larger than the case's."""
    padded = _padded(work, peer)
    return {} if padded == work else {"padded": f"{padded.m}x{padded.n}x{padded.k}"}


def _extents(work: Any) -> str:
    return f"{work.m},{work.n},{work.k},{work.in_dtype}"


def _dense(case: PrunedCase) -> dict[str, Any]:
    kind: Any = ByteProducts if case.dense.in_dtype == "int8" else FloatProducts
    work = _padded(case.dense, "cublaslt")
    row = {"peer": "cublaslt", **_said(case.dense, "cublaslt")}
    try:
        return {**row, "us": kind().measure(work, _TIMING).seconds * 1e6}
    except LibraryError as error:
        return {**row, "us": None, "failure": str(error)}


def _blocked(case: PrunedCase) -> dict[str, Any]:
    """cuSPARSE takes the weight as its left side, and the same number of blocks in each row."""
    work = _padded(case.dense, "blocked_ell")
    row: dict[str, Any] = {"peer": "blocked_ell", "us": None, **_said(case.dense, "blocked_ell")}
    product = BlockedProduct(
        work.n, work.m, work.k, case.pattern.granularity, case.sparsity, work.in_dtype
    )
    try:
        return {**row, "us": BlockedEll().measure(product, _TIMING).seconds * 1e6}
    except LibraryError as error:
        return {**row, "failure": str(error)}


def _in_torch(asked: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A process of its own times torch's products: rows by what was asked."""
    if not asked:
        return {}
    script = Path(__file__).with_name("torch_times.py")
    done = subprocess.run(
        [sys.executable, script, *asked],
        capture_output=True, text=True, timeout=_SECONDS, check=False,
    )  # fmt: skip
    found: dict[str, dict[str, Any]] = {
        text: {"us": None, "failure": done.stderr[-200:]} for text in asked
    }
    for line in done.stdout.splitlines():
        text, word, *failure = line.split(maxsplit=2)
        right = {"us": None, "failure": " ".join(failure)} if word == "-" else {"us": float(word)}
        found[text] = right
    return found
