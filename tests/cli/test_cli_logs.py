"""`autoq logs` on good files, bad files and damaged ones."""

import csv
import os
import re
import resource

import pytest
from trial_records import trials_of

from autoq.records import read_records


@pytest.fixture
def log(folder, records):
    """The trials among the tuned network's records, free to be damaged."""
    path = folder / "log.jsonl"
    lines = records.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if b'"confirmed"' not in line))
    return path


def test_list_counts_records(autoq, log):
    screen = autoq("logs", "list", "log.jsonl")
    assert screen.code == 0 and "log.jsonl" in screen.out, screen
    row = screen.out.splitlines()[2]
    assert " 8 " in row and "conv2d_" in row
    assert autoq("logs", "list").code == 0


def test_best_has_the_fastest_of_each_workload(autoq, log):
    fastest = {}
    for record in read_records(log).records:
        place = (record.workload_key, record.template)
        fastest[place] = min(record.seconds, fastest.get(place, record.seconds))
    screen = autoq("logs", "best", "log.jsonl")
    assert screen.code == 0
    assert len(screen.out.splitlines()) == 2 + len(fastest)


def test_merge_keeps_each_record_once(autoq, folder, log):
    (folder / "copy.jsonl").write_bytes(log.read_bytes())
    screen = autoq("logs", "merge", "log.jsonl", "copy.jsonl", "-o", "all.jsonl")
    assert (screen.code, screen.out) == (0, "wrote 8 records to all.jsonl\n"), screen
    assert read_records("all.jsonl").records == read_records(log).records
    screen = autoq("logs", "merge", "all.jsonl", "-o", "best.jsonl", "--best-only")
    assert screen.code == 0
    assert 2 <= len(read_records("best.jsonl").records) < 8


def test_merge_into_one_of_its_inputs(autoq, log):
    before = read_records(log).records
    assert autoq("logs", "merge", "log.jsonl", "-o", "log.jsonl").code == 0
    assert read_records(log).records == before


def test_check_of_a_sound_file(autoq, log):
    screen = autoq("logs", "check", "log.jsonl")
    assert screen.code == 0 and "sound, 8 records" in screen.out, screen


def test_check_names_bad_lines_and_a_torn_end(autoq, log):
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(lines[0] + b"rubbish\n" + b"".join(lines[1:-1]) + lines[-1][:40])
    screen = autoq("logs", "check", "log.jsonl")
    assert screen.code == 2 and "damaged, 7 records" in screen.out, screen
    assert "log.jsonl:2:" in screen.out and "torn last line" in screen.out


def test_tune_goes_on_in_a_torn_file(autoq, log, model):
    log.write_bytes(log.read_bytes()[:-40])
    screen = autoq("tune", model, "--target", "cpu", "--trials", 9, "-o", "log.jsonl", "--jobs", 2)
    assert screen.code == 0 and "7 of them in the output already" in screen.out, screen
    assert autoq("logs", "check", "log.jsonl").code == 0
    assert len(trials_of(log)) == 9


def test_export_is_a_table_with_a_row_a_record(autoq, folder, log):
    screen = autoq("logs", "export", "log.jsonl", "-o", "log.csv")
    assert (screen.code, screen.out) == (0, "wrote 8 records to log.csv\n"), screen
    with open("log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["seconds"]) for row in rows] == [
        record.seconds for record in read_records(log).records
    ]


FOREIGN = {"text": b"hello\n", "json": b'{"a": 1}\n', "binary": b"\x7fELF\0\0\n\n", "list": b"[]\n"}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_file_that_holds_no_records(refuses, folder, model, case):
    (folder / "bad.jsonl").write_bytes(FOREIGN[case])
    words = ("bad.jsonl", "not a tuning-record file", "line 1")
    for verb in ("list", "best", "check"):
        refuses("logs", verb, "bad.jsonl", words=words)
    refuses("logs", "merge", "bad.jsonl", "-o", "new.jsonl", words=words)
    refuses("logs", "export", "bad.jsonl", "-o", "new.csv", words=words)
    refuses("tune", model, "--target", "cpu", "--trials", 4, "-o", "bad.jsonl", words=words)
    for verb in ("tune", "compile"):
        refuses(verb, model, "--target", "cpu", "-o", "new", "--tuning-records", "bad.jsonl",
                words=words)  # fmt: skip


def test_options_of_logs(refuses, log):
    refuses("logs", "list", "absent.jsonl", words=("absent.jsonl", "No such file"))
    refuses("logs", "best", ".", words=("directory",))
    refuses("logs", "merge", "log.jsonl", "-o", "absent/new.jsonl", words=("absent",))
    refuses("logs", "merge", "log.jsonl", words=("--output",))
    refuses("logs", "export", "log.jsonl", "-o", "absent/new.csv", words=("absent",))
    refuses("logs", "export", "log.jsonl", "-o", "x", "--format", "xml", words=("'xml'", "csv"))
    few = b"".join(log.read_bytes().splitlines(keepends=True)[:3])
    log.with_name("few.jsonl").write_bytes(few)
    words = ("nothing to learn from", "4 trials")
    refuses("logs", "train", "few.jsonl", "-o", "new.json", words=words)


def test_every_verb_skips_damaged_lines_and_says_how_many(autoq, folder, log, model):
    whole = log.read_bytes().splitlines(keepends=True)
    fast = re.sub(rb'"seconds":[^,]+', b'"seconds":1e-08', whole[3])
    deep = b'{"format":1,"workload":' + b"[" * 200_000 + b"\n"
    log.write_bytes(b"".join([*whole[:3], fast, deep, *whole[4:]]))
    counted = "log.jsonl: lines not used: 1 damaged (checksum differs), 1 damaged (nested too deep)"
    for verb in (("list",), ("best",), ("merge", "-o", "new.jsonl"), ("export", "-o", "new.csv")):
        screen = autoq("logs", *verb, "log.jsonl")
        assert screen.code == 0 and screen.err.startswith(f"autoq: {counted}"), screen
    assert len(read_records("new.jsonl").records) == 7
    for verb in ("tune", "compile"):
        extra = ("--trials", 4) if verb == "tune" else ()
        screen = autoq(verb, model, "--target", "cpu", "-o", f"new.{verb}", *extra, "--jobs", 2,
                       "--tuning-records", "log.jsonl")  # fmt: skip
        assert screen.code == 0, screen
        assert "1 damaged (checksum differs), 1 damaged (nested too deep)" in screen.out, screen


def test_a_file_without_a_timed_record_has_no_best(autoq, folder):
    (folder / "empty.jsonl").touch()
    screen = autoq("logs", "best", "empty.jsonl")
    assert (screen.code, screen.out) == (0, "no timed records\n"), screen


def test_repair_removes_what_check_names_and_keeps_the_old_file(autoq, folder, log):
    whole = log.read_bytes().splitlines(keepends=True)
    damaged = b"".join([whole[0], b"rubbish\n", *whole[1:5], b"\0" * 700 + b"\n", whole[5][:90]])
    log.write_bytes(damaged)
    (folder / "log.jsonl.bak").write_text("the user's own")
    screen = autoq("logs", "check", "--repair", "log.jsonl")
    assert screen.code == 0 and "5 records, 3 lines removed" in screen.out, screen
    for line in (2, 7, 8):
        assert f"log.jsonl:{line}: " in screen.out
    assert log.read_bytes() == b"".join(whole[:5])
    assert (folder / "log.jsonl.bak").read_text() == "the user's own"
    assert (folder / "log.jsonl.bak.2").read_bytes() == damaged
    screen = autoq("logs", "check", "--repair", "log.jsonl")
    assert (screen.code, screen.out) == (0, "log.jsonl: 5 records, sound\n"), screen
    assert len(list(folder.iterdir())) == 3


def test_repair_leaves_a_file_that_is_none_alone(refuses, folder):
    (folder / "notes.txt").write_text("hello\n")
    refuses("logs", "check", "--repair", "notes.txt", words=("not a tuning-record file",))


def test_a_part_file_of_the_user_is_left_alone(autoq, folder, log):
    (folder / "new.jsonl.part").write_text("the user's own")
    assert autoq("logs", "merge", "log.jsonl", "-o", "new.jsonl").code == 0
    assert autoq("logs", "export", "log.jsonl", "-o", "new.csv").code == 0
    assert (folder / "new.jsonl.part").read_text() == "the user's own"
    assert {path.name for path in folder.iterdir()} == {
        "log.jsonl", "new.jsonl", "new.jsonl.part", "new.csv"
    }  # fmt: skip


@pytest.fixture
def full_disk():
    """Lets no file of this process grow past so many bytes, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("verb", ["merge", "export", "repair"])
def test_a_full_disk_leaves_nothing_half_written(refuses, folder, log, full_disk, verb):
    if verb == "repair":
        log.write_bytes(log.read_bytes() + b"rubbish\n")
        full_disk(1000)
        refuses("logs", "check", "--repair", "log.jsonl", words=("log.jsonl: cannot be written",))
        return
    full_disk(1000)  # The one line on standard error goes to a file, too.
    for old in (None, b"older"):
        if old is not None:
            (folder / "new").write_bytes(old)
        refuses("logs", verb, "log.jsonl", "-o", "new", words=("new: cannot be written: File too",))


def test_a_name_that_is_no_text(autoq, folder, log):
    log.rename(os.fsdecode(b"\xff.jsonl"))
    screen = autoq("logs", "list", os.fsdecode(b"\xff.jsonl"))
    assert screen.code == 0 and "\\xff.jsonl" in screen.out, screen
