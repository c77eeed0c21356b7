"""Scripts that measure keep their files where a later run sweeps what a killed one left."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import ablation
import bench_conv
import check_kernels
import pytest
import remeasure

SMALL = Path(bench_conv.__file__).parents[1] / "cases" / "small_cases.py"
RUNS = {
    ablation: ("device_measurer", ["--target", "cpu", "--output", "a.json"]),
    bench_conv: ("Kernels", ["--target", "cpu", "--cases", "7x7x512", "--output", "b.json"]),
    check_kernels: ("device_measurer", ["--target", "cpu", str(SMALL)]),
    remeasure: ("device_measurer", ["old.jsonl", "--target", "cpu", "--output", "new.jsonl"]),
}


class Stopped(Exception):
    """The script has its folder."""


@pytest.mark.parametrize("script", RUNS, ids=lambda script: script.__name__)
def test_a_script_sweeps_and_works_in_a_scratch_folder(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    temporary = tmp_path / "temporary"
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    dead = temporary / "autoq-scratch-deadbeef"
    dead.mkdir(parents=True)
    (dead / ".lock").touch()
    (tmp_path / "old.jsonl").write_text(json.dumps({}) + "\n")
    held: list[list[Path]] = []

    def stop(*arguments: object) -> None:
        held.append(list(temporary.iterdir()))
        raise Stopped

    name, arguments = RUNS[script]
    monkeypatch.setattr(script, name, stop)
    monkeypatch.setattr(sys, "argv", [script.__name__, *arguments])
    with pytest.raises(Stopped):
        script.main()
    ((own,),) = held
    assert own.name.startswith("autoq-scratch-") and own != dead
    assert not list(temporary.iterdir())
