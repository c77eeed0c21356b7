"""What choices keep of what they promise, summed up over several measurements."""

from __future__ import annotations

import json
import sys
from typing import Any

import bench_predicted
import bench_promises
import pytest


def row(promised: float, choice: float | None, default: float = 2.0) -> dict[str, Any]:
    return {
        "case": "N8", "record_us": 1.0, "default_us": default, "network_left_out_us": choice,
        "network_left_out_promised": promised,
    }  # fmt: skip


def test_choices_are_summed_up_by_what_they_promise():
    found = bench_promises.kept([row(1.02, 1.0), row(1.029, 3.0), row(1.5, 1.0, default=1.05)])
    assert [one["least"] for one in found] == [1.02, 1.2]
    first, second = found
    assert (first["choices"], first["over_default"], first["worst_over_default"]) == (2, 1.0, 1.5)
    assert first["standard_error"] == pytest.approx(0.5 / 2**0.5, abs=1e-4)
    assert (first["choices_behind"], first["defaults_behind"]) == (0.5, 1.0)
    assert (second["choices_behind"], second["defaults_behind"]) == (0.0, 0.0)


def test_choices_that_are_the_default_or_were_not_made_do_not_count():
    assert bench_promises.kept([row(1.0, 2.0), row(1.1, None)]) == []


def test_several_measurements_become_one_file(monkeypatch, tmp_path):
    paths = [tmp_path / "one.json", tmp_path / "other.json"]
    for path in paths:
        data = {"device": "some GPU", "records": "a.jsonl", "commit": "0123456789"}
        path.write_text(json.dumps({**data, "cases": [row(1.3, 1.0)]}))
    output = tmp_path / "found.json"
    monkeypatch.setattr(sys, "argv", ["bench_promises.py", *map(str, paths), "-o", str(output)])
    bench_promises.main()
    found = json.loads(output.read_text())
    assert found["measured"] == ["a.jsonl at 01234567"] * 2 and found["device"] == ["some GPU"]
    assert found["promises"][0]["choices"] == 2


def test_a_time_is_the_median_of_the_passes():
    one, other = "one", "other"  # stand for candidates
    passes = [{one: 1.0, other: 2.0}, {one: 9.0, other: None}, {one: 2.0, other: 2.0}]
    assert bench_predicted.medians(passes) == {one: 2.0, other: None}
