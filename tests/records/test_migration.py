"""Records of earlier forms of the knobs are read in the present form, and nothing else changes."""

from __future__ import annotations

import dataclasses
import json

import pytest

from autoq.records.database import Database
from autoq.records.line import seal
from autoq.records.migration import migrated
from autoq.records.record import Record
from autoq.templates.registry import TEMPLATES
from autoq.templates.target import parse_target

HALO = {"row_bytes": 32, "tile": [False, 1, 8, 8], "team": [2, True]}
HALO_NOW = {
    "row_bytes": 32,
    "tile": {"flat": False, "images": 1, "height": 8, "width": 8},
    "team": {"consumers": 2, "cooperative": True},
}
PIPELINE = {"stages": 4, "team": [2, False, 1]}
PIPELINE_NOW = {"stages": 4, "team": {"consumers": 2, "cooperative": False, "k_groups": 1}}
WHOLE_GRID = {"persistent": True, "cluster": 1, "shared": "nothing"}
SPLIT_GRID = {"persistent": False, "cluster": 4, "shared": "reduction"}
BOX = {"images": 2, "rows": 7, "columns": 14}
CASES = [
    ("conv2d_halo", 6, HALO | {"weights": [0, 1]},
     HALO_NOW | {"weights": {"steps_per_part": None}}),
    ("conv2d_swapped", 5, HALO | {"weights": [1, 3]},
     HALO_NOW | {"weights": {"steps_per_part": 3}}),
    ("conv2d_swapped_im2col", 3, HALO | {"weights": [4, 1]},
     HALO_NOW | {"weights": {"stages": 4, "steps_per_stage": 1}}),
    ("gemm_wgmma", 5, PIPELINE | {"grid": [True, 1, ""]}, PIPELINE_NOW | {"grid": WHOLE_GRID}),
    ("conv2d_im2col", 5, PIPELINE | {"grid": [False, 4, "reduction"]},
     PIPELINE_NOW | {"grid": SPLIT_GRID}),
    ("conv2d_tap", 5, PIPELINE | {"grid": [True, 1, ""], "tile": [2, 7, 14]},
     PIPELINE_NOW | {"grid": WHOLE_GRID, "tile": BOX}),
    ("attention_wgmma", 1, {"consumers": 1, "keeps_scores": False},
     {"consumers": 1, "keeps_powers": False}),
    ("conv2d_grouped", 2, {"rows": 4, "stages": 1, "blocks": 0},
     {"rows": 4, "stages": 1, "blocks_per_unit": None, "registers_bounded": False}),
    ("conv2d_grouped", 2, {"rows": 4, "stages": 3, "blocks": 2},
     {"rows": 4, "stages": 3, "blocks_per_unit": 2, "registers_bounded": False}),
    ("sparse_attention_fused", 2, {"warps": 4, "headroom": 1}, {"warps": 4, "headroom": 1}),
    ("sparse_attention_fused", 3, {"warps": 4, "headroom": 0}, {"warps": 4, "headroom": 0}),
]  # fmt: skip


@pytest.mark.parametrize(("template", "version", "old", "new"), CASES)
def test_the_form_before_becomes_the_present_one(template, version, old, new):
    present = {each.name: each.version for each in TEMPLATES}
    assert migrated(template, version, old) == (present[template], new)
    assert migrated(template, version - 1, old) == (version - 1, old), "it meant something else"
    assert migrated(template, present[template], new) == (present[template], new)


@pytest.mark.parametrize(
    "config", [{}, HALO, HALO | {"weights": 3}, HALO | {"weights": [1]}, {"weights": [0, 1]}]
)
def test_what_has_not_the_form_of_its_version_stays(config):
    assert migrated("conv2d_halo", 6, config) == (6, config)


def test_grouped_kernels_had_no_launch_bounds():
    now = 4, {"rows": 4, "blocks_per_unit": 2, "registers_bounded": False}
    assert migrated("conv2d_grouped", 3, {"rows": 4, "blocks_per_unit": 2}) == now


def test_scores_that_were_kept_are_no_powers():
    kept = {"consumers": 1, "keeps_scores": True}
    assert migrated("attention_wgmma_bytes", 1, kept) == (1, kept)


def test_shares_without_headroom_had_other_kernels():
    knobs = {"warps": 4, "headroom": 0}
    assert migrated("sparse_attention_fused", 2, knobs) == (2, knobs)


def _in_the_form_before(record: Record) -> str:
    """A line of a record of conv2d_tap, as version 5 wrote it."""
    fields = json.loads(record.to_line())
    del fields["crc32"]
    config = record.config
    grid = [*config["grid"].values()]
    lists = {"grid": [*grid[:2], "" if grid[2] == "nothing" else grid[2]]}
    lists |= {name: [*config[name].values()] for name in ("team", "tile")}
    return seal(fields | {"template_version": 5, "config": config | lists})


def test_shipped_records_are_of_present_versions_and_legal_and_old_lines_equal_them():
    """Every record that ships is one of today, and lines of before become the same records."""
    target, spaces, count = parse_target("cuda:sm_90a"), {}, 0
    templates = {each.name: each for each in TEMPLATES}
    for lines in Database.load([], shipped=True).files:
        for record in lines.records:
            template = templates[record.template]
            assert record.template_version == template.version
            at = record.workload_key, record.template
            if at not in spaces:
                spaces[at] = template.space(record.workload, target)
            spaces[at].from_dict(record.config)
            if record.template == "conv2d_tap":
                count += 1
                assert dataclasses.asdict(Record.from_line(_in_the_form_before(record))) == (
                    dataclasses.asdict(record)
                )
    assert count > 100
