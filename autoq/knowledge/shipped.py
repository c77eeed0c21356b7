"""The models that come with autoq."""

from __future__ import annotations

import functools
from importlib import resources
from pathlib import Path

from autoq.knowledge.model import KnowledgeModel, load_model, parse_model

FILE = "knowledge.json.xz"
"""Name of a device's model in its folder of `autoq.tuning_logs`."""


def shipped_records() -> list[Path]:
    """The record files that come with autoq, by device and name."""
    return sorted(Path(str(resources.files("autoq.tuning_logs"))).glob("*/*.jsonl"))


@functools.cache
def shipped_models() -> tuple[KnowledgeModel, ...]:
    """The models of all devices, by the names of their folders."""
    found = []
    for folder in sorted(resources.files("autoq.tuning_logs").iterdir(), key=lambda f: f.name):
        file = folder / FILE
        if folder.is_dir() and file.is_file():
            found.append(parse_model(f"{folder.name}/{FILE}", file.read_bytes()))
    return tuple(found)


def known_models(given: Path | None, shipped: bool) -> tuple[KnowledgeModel, ...]:
    """The model of a file before those that ship, which count where `shipped` says so.

    Raises RecordError for a file that is no model.
    """
    own = () if given is None else (load_model(given),)
    return own + (shipped_models() if shipped else ())
