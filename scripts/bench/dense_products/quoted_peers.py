"""Times of peers that bench_gemm.py does not run, as they are quoted in its results.

    python scripts/bench/dense_products/quoted_peers.py scripts/results/gemm_h200.json

writes them into the rows of a result. Humming's and Marlin's kernels need builds of their own, and
CUTLASS's its headers. All are of an NVIDIA H200, on another day than autoq's time beside them, so
that a few percent between them say nothing.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

DEVICE = "NVIDIA H200"
_DATE = "2026-11-22"
_MEASURED = "measured here: CUTLASS 4.2, CUDA 13.0, driver 580, weights hot in the L2"
_HUMMING = "measured here: the best of 9 configurations, L2 flushed"
_AUTHORS = "its authors' figure, read on that date; L2 flushed, scales by channel or by group"


@dataclass(frozen=True)
class Quote:
    """A peer's microseconds, the date on which they were measured or read, and where they are from.

    us: of its best configuration.
    """

    peer: str
    us: float
    source: str
    date: str = _DATE


def _cold(m: int, *quotes: Quote, four_bits: bool = False) -> dict[str, tuple[Quote, ...]]:
    kind = "s4 g128" if four_bits else "s8"
    return {f"f16 x {kind} {m}x8192x8192 cold": quotes}


_BYTES = {
    "1024x1024x1024": 6.3, "2048x2048x2048": 13.6, "3456x4096x2048": 42.7,
    "4096x4096x4096": 94.5, "8192x8192x8192": 787.0,
}  # fmt: skip

QUOTED: dict[str, tuple[Quote, ...]] = {
    **{
        f"s8 x s8{words} {extents}": (Quote("CUTLASS sm90 s8", us, _MEASURED),)
        for words in ("", " one scale")
        for extents, us in _BYTES.items()
    },
    "f16 x s8 3456x4096x2048": (
        Quote("CUTLASS sm90 mixed", 92.0, _MEASURED), Quote("Triton w8a16", 155.6, _MEASURED),
    ),
    "f16 x s8 4096x4096x4096": (
        Quote("CUTLASS sm90 mixed", 182.0, _MEASURED), Quote("Triton w8a16", 313.0, _MEASURED),
    ),
    **_cold(16, Quote("Humming w8a16", 29.8, _HUMMING), Quote("Marlin w8a16", 32.0, _AUTHORS)),
    **_cold(64, Quote("Humming w8a16", 33.9, _AUTHORS), Quote("Marlin w8a16", 48.9, _AUTHORS)),
    **_cold(1024, Quote("Humming w8a16", 211.6, _AUTHORS), Quote("Marlin w8a16", 387.0, _AUTHORS)),
    **_cold(8192, Quote("Humming w8a16", 1530.0, _AUTHORS),
            Quote("Marlin w8a16", 3181.0, _AUTHORS)),
    **_cold(1, Quote("Humming w4a16", 22.4, _AUTHORS), Quote("Marlin w4a16", 23.1, _AUTHORS),
            four_bits=True),
    **_cold(16, Quote("Humming w4a16", 22.9, _AUTHORS), Quote("Marlin w4a16", 23.7, _AUTHORS),
            four_bits=True),
    **_cold(64, Quote("Humming w4a16", 28.1, _AUTHORS), Quote("Marlin w4a16", 43.2, _AUTHORS),
            four_bits=True),
}  # fmt: skip
"""By the names of cases."""


def quoted(case: str, device: str) -> list[dict[str, Any]]:
    """The quotes of a case as a row of the results has them; none for another device."""
    return [asdict(quote) for quote in QUOTED.get(case, ())] if device == DEVICE else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    path = parser.parse_args().results
    result = json.loads(path.read_text())
    for row in result["cases"]:
        row["quoted"] = quoted(row["case"], result["device"])
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
