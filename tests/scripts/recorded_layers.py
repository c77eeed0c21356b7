"""Shipped spaces of two layers, and records of the fastest that they hold."""

from __future__ import annotations

from pathlib import Path

from autoq.records.record import Record
from autoq.records.recorded_space import read_space
from autoq.replaying.loading import shipped_spaces

# Two depthwise layers, of a few recorded configurations and of many.
FIRST, SECOND = "n8-3x3-7x7x960-960-g960", "n8-3x3-14x14x576-576-g576"


def layer_paths() -> list[Path]:
    """The spaces of both layers."""
    return [next(p for p in shipped_spaces() if name in p.name) for name in (FIRST, SECOND)]


def records_of(paths: list[Path], folder: Path) -> Path:
    """A record file with the fastest trial of each space."""
    lines = []
    for path in paths:
        space = read_space(path)
        best = min((t for t in space.trials if t.seconds), key=lambda t: t.seconds)
        lines.append(
            Record(space.workload, best.template, best.version, best.config, space.device,
                   space.last, seconds=best.seconds, repeats=3)
        )  # fmt: skip
    source = folder / "network.jsonl"
    source.write_text("".join(f"{line.to_line()}\n" for line in lines))
    return source
