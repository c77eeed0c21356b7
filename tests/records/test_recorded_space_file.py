"""Recorded spaces as files: what is written is read, and nothing else passes for one."""

from __future__ import annotations

import dataclasses
import json
import lzma

import pytest

from autoq.errors import RecordError
from autoq.records.recorded_space import (
    drawn_in,
    of_records,
    parse_space,
    read_space,
    write_space,
)
from autoq.records.t4 import to_t4


@pytest.fixture
def records(record):
    timed = [record(config={"tile": i % 2, "cluster": [1, i]}, seconds=1e-5 * (i + 1))
             for i in range(3)]  # fmt: skip
    return [*timed, record(config={"tile": 9, "cluster": [0, 0]}, failure="compile")]


def test_what_is_written_is_read(tmp_path, records):
    space = of_records(records, {records[0].identity: "uniform"})
    path = tmp_path / "one.space.json.xz"
    size = write_space(path, space)
    assert path.stat().st_size == size
    found = read_space(path)
    assert found.workload == space.workload and found.device == space.device
    assert [t.config for t in found.trials] == [t.config for t in space.trials]
    assert [t.failure for t in found.trials] == [None, None, None, "compile"]
    for one, other in zip(found.trials[:3], space.trials[:3], strict=True):
        assert one.seconds == pytest.approx(other.seconds, abs=1e-13)
    assert found.best_seconds == pytest.approx(1e-5)
    assert drawn_in(found) == {records[0].identity: "uniform"}


def test_other_files_are_refused(tmp_path, records):
    path = tmp_path / "one.space.json.xz"
    write_space(path, of_records(records))
    data = path.read_bytes()
    with pytest.raises(RecordError, match="no recorded space"):
        parse_space("x", data[:-20])
    with pytest.raises(RecordError, match="no recorded space"):
        parse_space("x", b"{}")
    fields = json.loads(lzma.decompress(data))
    with pytest.raises(RecordError, match="format 7"):
        parse_space("x", lzma.compress(json.dumps({**fields, "format": 7}).encode()))
    fields["templates"][0]["failures"] = ["odd"]
    with pytest.raises(RecordError, match="odd"):
        parse_space("x", lzma.compress(json.dumps(fields).encode()))
    with pytest.raises(RecordError, match="cannot be read"):
        read_space(tmp_path / "missing")


def test_a_space_is_of_one_workload_on_one_device(records):
    other = dataclasses.replace(
        records[0], device=dataclasses.replace(records[0].device, name="another")
    )
    with pytest.raises(RecordError, match="one device, not 2"):
        of_records([*records, other])


def test_t4_names_every_result(records):
    found = to_t4(of_records(records))
    assert [one["invalidity"] for one in found["results"]] == ["correct"] * 3 + ["compile"]
    assert found["results"][1]["measurements"][0]["value"] == pytest.approx(0.02)
    assert found["results"][3]["times"] == {"runtimes": []}
    for one in found["results"]:
        assert {"configuration", "times", "invalidity", "correctness"} <= one.keys()
    json.dumps(found, allow_nan=False)
