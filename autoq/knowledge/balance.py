"""How the work of a configuration falls on multiprocessors, from features that templates have.

Trees split one feature at a time and cannot multiply. What a template pads, how its last wave ends
and what a block reads decide together, by their product, so the products are columns of their own:
what the busiest multiprocessor does, as a multiple of an equal share of the workload's own work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

Features = Mapping[str, np.ndarray]

_WASTES = "pixel_waste", "channel_waste", "k_waste"
_TILE, _STAGES = ("block_m", "block_n"), ("stages", "stage_bytes", "blocks_per_unit")
_WHOLE = 1e-6
"""By how much a number of waves may exceed a whole one for rounding's sake."""


def balance(found: Features, units: int) -> Iterator[tuple[str, np.ndarray]]:
    """Columns [n] by name of a template's features [n] by theirs; units: multiprocessors.

    Binary logarithms of the busiest multiprocessor's multiplications, and of the bytes that it
    reads from the L2 and of fragments from shared memory for them, each over a common measure;
    then its blocks, how even they are, its warps and outputs, the whole waves, and the bytes that
    loads under way take. A template without the features has none of what they give.
    """
    blocks = found.get("blocks")
    if blocks is not None:
        most = np.ceil(blocks / units)
        even = blocks / (units * np.maximum(most, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        if "wave_efficiency" in found:
            excess = np.prod([found[name] for name in _WASTES], axis=0) / found["wave_efficiency"]
        elif blocks is not None:
            excess = 1 / (found.get("useful", np.ones(len(blocks))) * even)
        elif "useful" in found and "last_wave" in found:
            excess = 1 / (found["useful"] * found["last_wave"])
        else:
            return
        excess = np.log2(excess)
        yield "busiest.log2(work)", excess
        for name, bytes_name in (
            ("multiplies_per_fill_byte", "fill"), ("intensity", "fill"),
            ("multiplies_per_fragment_byte", "fragments"),
        ):  # fmt: skip
            if name in found:
                yield f"busiest.log2({bytes_name})", excess - np.log2(found[name])
        if blocks is not None:
            yield "busiest.blocks", most
            yield "busiest.even", even
            if "threads" in found:
                yield "busiest.warps", found["threads"] / 32 * most
            if all(name in found for name in _TILE):
                outputs = found["block_m"] * found["block_n"]
                yield "busiest.log2(outputs)", np.log2(outputs * most)
        if "wave_efficiency" in found and "waves" in found:
            yield "whole_waves", np.ceil(found["waves"] - _WHOLE)
        if all(name in found for name in _STAGES):
            yield "under_way_bytes", np.prod([found[name] for name in _STAGES], axis=0)
