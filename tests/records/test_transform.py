"""What `autoq logs` does: merge, best, check, export."""

import csv
import io

import pytest

from autoq.errors import RecordError
from autoq.records import Device, Journal, read_records
from autoq.records.check import check
from autoq.records.transform import best_records, export_csv, merge


def test_merge_drops_repetitions_and_prefers_timed_ones(tmp_path, record):
    Journal(tmp_path / "a.jsonl").append([record(failure="timeout"), record(config={"tile": 4})])
    Journal(tmp_path / "b.jsonl").append([record(seconds=2e-6), record(config={"tile": 4})])
    count = merge([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], tmp_path / "out.jsonl").records
    merged = read_records(tmp_path / "out.jsonl").records
    assert count == 2 and {r.seconds for r in merged} == {2e-6, 3.8e-6}
    assert not list(tmp_path.glob("*.part"))


def test_best_keeps_one_a_workload_device_and_template_version(record):
    other = Device("NVIDIA H100", "sm_90a")
    records = [
        record(seconds=3e-6),
        record(seconds=1e-6, config={"tile": 4}),
        record(failure="runtime"),
        record(seconds=5e-6, device=other),
        record(seconds=0.5e-6, template_version=0),
    ]
    assert [r.seconds for r in best_records(records)] == [1e-6, 5e-6, 0.5e-6]


def test_merging_best_only_into_an_input_replaces_it_whole(tmp_path, record):
    path = tmp_path / "a.jsonl"
    Journal(path).append([record(seconds=2e-6), record(seconds=1e-6, config={"tile": 4})])
    assert merge([path], path, best_only=True).records == 1
    assert [r.seconds for r in read_records(path).records] == [1e-6]


def test_merge_checks_everything_before_it_writes(tmp_path, record):
    Journal(tmp_path / "a.jsonl").append([record()])
    (tmp_path / "b.txt").write_text("hello\n")
    with pytest.raises(RecordError, match=r"b\.txt"):
        merge([tmp_path / "a.jsonl", tmp_path / "b.txt"], tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_check_counts_and_names_bad_lines(tmp_path, record):
    path = tmp_path / "a.jsonl"
    Journal(path).append([record(), record(), record(failure="compile", config={"tile": 4})])
    assert check(path).sound
    with path.open("a") as file:
        file.write("rubbish\n")
    found = check(path)
    assert not found.sound and found.problems[0].startswith(f"{path}:4:")
    assert found.records == 3 and found.repeated == 1 and found.failures == {"compile": 1}
    assert found.devices == {"NVIDIA H200 (sm_90a)": 3}


def test_export_has_a_row_for_each_record(record):
    text = export_csv([record(confirmed=True), record(failure="runtime", message="a, b")])
    rows = list(csv.DictReader(io.StringIO(text)))
    assert float(rows[0]["seconds"]) == 3.8e-6 and rows[0]["operator"] == "conv2d"
    operations = 2 * 8 * 56 * 56 * 64 * 64 * 9
    assert float(rows[0]["tops"]) == pytest.approx(operations / 3.8e-6 / 1e12)
    assert [row["confirmed"] for row in rows] == ["True", "False"]
    assert rows[1]["seconds"] == "" and rows[1]["message"] == "a, b"


def _compared(record, tiles, time="2026-11-20T13:00:00Z"):
    """Confirmed records of one comparison: microseconds by tile."""
    return [
        record(seconds=us * 1e-6, config={"tile": tile}, confirmed=True, time=time)
        for tile, us in tiles.items()
    ]


def test_best_is_what_a_comparison_confirmed(record):
    lucky = record(seconds=1e-6, config={"tile": 4})
    slow, fast = _compared(record, {4: 6.0, 8: 5.0})
    assert best_records([lucky, slow, fast]) == [fast]


def test_merge_keeps_the_newest_comparison_and_counts_no_repetition(tmp_path, record):
    old = [record(seconds=1e-6, config={"tile": 4}), *_compared(record, {4: 6.0, 8: 5.0})]
    new = _compared(record, {4: 3.0, 8: 4.0}, time="2026-11-21T00:00:00Z")
    Journal(tmp_path / "a.jsonl").append(new)
    Journal(tmp_path / "b.jsonl").append(old)
    assert check(tmp_path / "b.jsonl").repeated == 0
    assert merge([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], tmp_path / "out.jsonl").records == 2
    assert set(read_records(tmp_path / "out.jsonl").records) == set(new)
    merge([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], tmp_path / "best.jsonl", best_only=True)
    assert read_records(tmp_path / "best.jsonl").records == (new[0],)
