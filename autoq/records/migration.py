"""Knobs in the form of an earlier version of their template, brought to the present form.

A version that only writes its knobs in another way has a migration here, so that records of the
version before it stay of use. One that gives a configuration another meaning has none: its older
records are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Knobs = dict[str, Any]


def migrated(template: str, version: int, config: Mapping[str, Any]) -> tuple[int, Knobs]:
    """The version and the knobs of a record as the newest version that means the same has them.

    What does not have the form of its version stays as it is.
    """
    knobs = dict(config)
    while (migrate := _MIGRATIONS.get((template, version))) is not None:
        try:
            knobs = migrate(knobs)
        except (KeyError, TypeError, ValueError):
            break
        version += 1
    return version, knobs


def _named(names: tuple[str, ...], values: Any) -> Knobs:
    """An object of values that stood in a list."""
    if not isinstance(values, list):
        raise TypeError(f"{values!r} is no list")
    return dict(zip(names, values, strict=True))


def _halo(knobs: Knobs) -> Knobs:
    """Lists become objects; 0 stages of weights were resident ones, 1 stage resident in parts."""
    weights = _named(("stages", "steps_per_stage"), knobs["weights"])
    if weights["stages"] == 0:
        weights = {"steps_per_part": None}
    elif weights["stages"] == 1:
        weights = {"steps_per_part": weights["steps_per_stage"]}
    return knobs | {
        "tile": _named(("flat", "images", "height", "width"), knobs["tile"]),
        "team": _named(("consumers", "cooperative"), knobs["team"]),
        "weights": weights,
    }


def _pipeline(knobs: Knobs) -> Knobs:
    """Lists become objects; clusters that share nothing say so."""
    grid = _named(("persistent", "cluster", "shared"), knobs["grid"])
    return knobs | {
        "team": _named(("consumers", "cooperative", "k_groups"), knobs["team"]),
        "grid": grid | {"shared": grid["shared"] or "nothing"},
    }


def _tap(knobs: Knobs) -> Knobs:
    """As the other pipelines, and the box of pixels too."""
    return _pipeline(knobs) | {"tile": _named(("images", "rows", "columns"), knobs["tile"])}


def _grouped(knobs: Knobs) -> Knobs:
    """0 blocks were a block for every tile."""
    others = {name: value for name, value in knobs.items() if name != "blocks"}
    return others | {"blocks_per_unit": knobs.get("blocks", 0) or None}


def _unbounded(knobs: Knobs) -> Knobs:
    """No kernel had launch bounds."""
    return knobs | {"registers_bounded": False}


def _attention(knobs: Knobs) -> Knobs:
    """Powers are kept where scores were; what kept scores is none any more."""
    if knobs["keeps_scores"]:
        raise ValueError("keeps_scores")
    renamed = {"keeps_scores": "keeps_powers"}
    return {renamed.get(name, name): value for name, value in knobs.items()}


def _headroom(knobs: Knobs) -> Knobs:
    """As they are; without headroom the largest shares were cut off where they rounded upwards."""
    if not knobs["headroom"]:
        raise ValueError("headroom 0 is another kernel")
    return knobs


def _same(knobs: Knobs) -> Knobs:
    """As they are: the kernel begins in another way, and configurations compare as they did."""
    return knobs


_MIGRATIONS: dict[tuple[str, int], Callable[[Knobs], Knobs]] = {
    ("attention_wgmma", 1): _attention,
    ("attention_wgmma_bytes", 1): _attention,
    ("conv2d_grouped", 2): _grouped,
    ("conv2d_grouped", 3): _unbounded,
    ("conv2d_halo", 6): _halo,
    ("conv2d_im2col", 5): _pipeline,
    ("conv2d_swapped", 5): _halo,
    ("conv2d_swapped_im2col", 3): _halo,
    ("conv2d_tap", 5): _tap,
    ("gemm_wgmma", 5): _pipeline,
    ("sparse_attention_fused", 2): _headroom,
    ("sparse_attention_fused", 3): _same,
}
"""From a template's version to the next one."""
