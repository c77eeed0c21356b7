"""Choosing records: devices, versions, shipped files, legality."""

import dataclasses
from dataclasses import dataclass

import pytest

from autoq.errors import RecordError
from autoq.records import Database, Device, Journal, lookup
from autoq.records.database import SHIPPED, Conditions, shipped_records
from autoq.records.lines import Lines
from autoq.records.lookup import choices
from autoq.search.space import Space
from autoq.templates.base import Template
from autoq.templates.target import Target

TARGET = Target("cuda", "sm_90a")
HERE = Conditions("sm_90a", "NVIDIA H200", {"halo": 1, "im2col": 1})


def _database(*records, path="mine.jsonl"):
    return Database([Lines(path, tuple(records), (), False)])


def test_the_fastest_usable_record_wins(record):
    database = _database(
        record(seconds=3e-6), record(seconds=2e-6), record(failure="timeout"), record(seconds=4e-6)
    )
    best = database.best(record().workload, HERE)
    assert best.record.seconds == 2e-6 and best.source == "mine.jsonl"


def test_a_time_of_a_network_stands_before_one_from_start_to_end(record):
    alone, among = record(seconds=2e-6), record(seconds=3e-6, overlapped=True)
    database = Database([Lines(str(i), (one,), (), False) for i, one in enumerate((alone, among))])
    assert database.best(alone.workload, HERE).record is among
    only = dataclasses.replace(HERE, overlapped=False)
    assert database.best(alone.workload, only).record is alone
    assert database.skipped(only) == {"timed where launches overlap, not from start to end": 1}


def test_foreign_records_are_kept_skipped_and_counted(record):
    h100 = Device("NVIDIA H100", "sm_90a")
    a100 = Device("NVIDIA A100", "sm_80")
    database = _database(
        record(seconds=1e-6, device=h100),
        record(seconds=1e-6, device=a100),
        record(seconds=1e-6, device=a100),
        record(seconds=1e-6, template_version=2),
        record(seconds=1e-6, template="gone"),
        record(seconds=9e-6),
    )
    assert len(database) == 6
    assert database.best(record().workload, HERE).record.seconds == 9e-6
    assert database.skipped(HERE) == {
        "of device NVIDIA H100, not NVIDIA H200": 1,
        "of arch sm_80, not sm_90a": 2,
        "of halo version 2, not 1": 1,
        "of unknown template gone": 1,
    }


def test_without_a_known_device_any_of_the_arch_counts(record):
    database = _database(record(seconds=1e-6, device=Device("NVIDIA H100", "sm_90a")))
    anywhere = dataclasses.replace(HERE, device=None)
    assert database.best(record().workload, HERE) is None
    assert database.best(record().workload, anywhere).record.seconds == 1e-6


def test_a_users_record_goes_before_a_faster_shipped_one(record):
    database = Database(
        [
            Lines(f"{SHIPPED}h200/a.jsonl", (record(seconds=1e-6),), (), False),
            Lines("mine.jsonl", (record(seconds=2e-6),), (), False),
        ]
    )
    best = database.best(record().workload, HERE)
    assert best.source == "mine.jsonl" and not best.shipped


def test_a_comparison_supersedes_the_other_records_of_its_file(record):
    confirmed = [
        record(seconds=us * 1e-6, config={"tile": tile}, confirmed=True, time=f"2026-{month}-01Z")
        for month, tile, us in (("10", 1, 2.0), ("11", 4, 6.0), ("11", 8, 5.0), ("11", 2, 7.0))
    ]
    lucky = [record(seconds=1e-6, config={"tile": 4}), record(seconds=3e-6, config={"tile": 16})]
    failed = record(failure="correctness", confirmed=True, time="2026-12-01Z")
    found = _database(*lucky, *confirmed, failed).ranked(record().workload, HERE)
    assert [round(one.record.seconds * 1e6) for one in found] == [5, 6, 7, 1, 2, 3]


def test_a_comparison_says_nothing_of_other_files_devices_and_workloads(record):
    compared = record(seconds=5e-6, confirmed=True)
    other = record(seconds=4e-6, device=Device("NVIDIA H100", "sm_90a"))
    wide = record(seconds=3e-6, workload=dataclasses.replace(record().workload, k=128))
    database = Database(
        [
            Lines("compared.jsonl", (compared, other, wide), (), False),
            Lines("old.jsonl", (record(seconds=2e-6),), (), False),
        ]
    )
    assert database.best(record().workload, HERE).source == "old.jsonl"
    assert database.best(wide.workload, HERE).record == wide
    anywhere = dataclasses.replace(HERE, device=None)
    assert [one.record.seconds for one in database.ranked(compared.workload, anywhere)] == [
        2e-6, 4e-6, 5e-6
    ]  # fmt: skip


def test_several_files_merge_and_bad_lines_are_counted(tmp_path, record):
    Journal(tmp_path / "a.jsonl").append([record(seconds=2e-6)])
    Journal(tmp_path / "b.jsonl").append([record(seconds=1e-6)])
    with (tmp_path / "b.jsonl").open("a") as file:
        file.write("rubbish\n{torn")
    database = Database.load([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])
    assert database.best(record().workload, HERE).source == str(tmp_path / "b.jsonl")
    assert database.skipped(HERE) == {"damaged (not JSON)": 1, "torn last line": 1}


def test_a_file_that_is_none_is_an_error(tmp_path):
    (tmp_path / "x.jsonl").write_text("hello\n")
    with pytest.raises(RecordError, match=r"x\.jsonl"):
        Database.load([tmp_path / "x.jsonl"])


def test_every_shipped_file_reads_whole():
    for lines in shipped_records():
        assert lines.records and not lines.rejected and not lines.torn, lines.path


@dataclass(frozen=True)
class HaloConfig:
    tile: int
    cluster: tuple[int, int]


def _template(tiles=(4, 8), matches=True):
    return Template(
        "halo",
        1,
        lambda workload, target: matches,
        lambda workload, target: Space(HaloConfig, {"tile": tiles, "cluster": ((1, 1), (1, 2))}),
        lambda workload, target: HaloConfig(4, (1, 1)),
        lambda workload, config, target: None,
        lambda workload, config, constants: (),
        lambda workload, config: (),
    )


def test_lookup_gives_template_and_configuration(record):
    choice = lookup(_database(record()), record().workload, TARGET, [_template()], "NVIDIA H200")
    assert choice.config == HaloConfig(8, (1, 2)) and choice.passed_over == 0


def test_lookup_passes_over_what_is_no_longer_legal(record):
    database = _database(
        record(seconds=1e-6),
        record(seconds=2e-6, config={"tile": 4, "cluster": [1, 1]}),
        record(seconds=0.5e-6, config={"tile": 4, "gone": 1}),
    )
    choice = lookup(database, record().workload, TARGET, [_template((4,))], "NVIDIA H200")
    assert choice.config == HaloConfig(4, (1, 1)) and choice.passed_over == 2


def test_choices_are_the_legal_ones_fastest_first(record):
    slow, fast, illegal = (
        record(seconds=seconds, config={"tile": tile, "cluster": [1, 1]})
        for seconds, tile in ((3e-6, 4), (2e-6, 8), (1e-6, 5))
    )
    templates = [_template((4, 8))]
    found = choices(_database(slow, fast, illegal), slow.workload, TARGET, templates, None)
    assert [choice.config.tile for choice in found] == [8, 4]


def test_lookup_finds_nothing_when_the_template_no_longer_matches(record):
    templates = [_template(matches=False)]
    assert lookup(_database(record()), record().workload, TARGET, templates, None) is None
