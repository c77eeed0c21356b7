"""Several tuners on one record file: what others recorded, and what they measure now."""

import errno
import multiprocessing
import os
import signal
import tempfile

import pytest

from autoq.records import Journal, read_records
from autoq.records.claims import Claim

A, B = Claim.of("workload", "a"), Claim.of("workload", "b")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.jsonl"


def _claims(journal):
    with journal.turn() as turn:
        return turn.claimed_elsewhere()


def test_what_others_append_is_news_once(path, record):
    with Journal(path) as mine, Journal(path) as other:
        other.append([record(seconds=1.0)])
        mine.append([record(seconds=2.0)])
        other.append([record(seconds=3.0)])
        with mine.turn() as turn:
            assert [r.seconds for r in turn.news] == [1.0, 3.0]
        with mine.turn() as turn:
            assert turn.news == ()
        with other.turn() as turn:
            assert [r.seconds for r in turn.news] == [2.0]


@pytest.mark.parametrize("end", ["", "\n", '\n{"format":1,"work'])
def test_what_the_file_held_is_no_news(path, record, end):
    path.write_text(record(seconds=1.0).to_line() + end)
    with Journal(path) as journal, Journal(path) as other:
        assert len(journal.existing.records) == 1
        other.append([record(seconds=2.0)])
        with journal.turn() as turn:
            assert [r.seconds for r in turn.news] == [2.0]


def test_claims_are_seen_by_others_until_they_are_recorded_or_given_back(path, record):
    with Journal(path) as mine:
        with Journal(path) as other:
            claim = Claim.of(record().workload_key, record().identity)
            with other.turn() as turn:
                turn.claim([claim, A])
            with mine.turn() as turn:
                assert turn.claimed_elsewhere() == {claim, A} and not turn.claimed()
                turn.claim([B])
            assert _claims(other) == {B}
            other.append([record()])
            assert _claims(mine) == {A}
        assert _claims(mine) == set()
    assert [file.name for file in path.parent.iterdir()] == ["log.jsonl"]
    assert len(read_records(path).records) == 1


def test_a_file_that_got_no_record_is_removed(path):
    with Journal(path) as journal:
        with journal.turn() as turn:
            turn.claim([A])
        assert len(list(path.parent.iterdir())) == 2
    assert not list(path.parent.iterdir())


def test_a_file_that_another_tuner_is_at_stays(path):
    with Journal(path) as other:
        with Journal(path) as journal, journal.turn():
            pass
        with other.turn() as turn:
            turn.claim([A])
        with Journal(path) as journal, journal.turn():
            pass
        assert path.exists()
    assert not list(path.parent.iterdir())


def test_claims_of_other_files_are_none_of_this_one(path):
    with Journal(path) as mine, Journal(path.with_name("log.jsonl.2")) as other:
        with other.turn() as turn:
            turn.claim([A])
        assert _claims(mine) == set()


def _claim_and_wait(path, claimed, forever):
    journal = Journal(path)
    with journal.turn() as turn:
        turn.claim([A, B])
    claimed.set()
    forever.wait()


def test_a_killed_tuner_holds_no_claim(path):
    context = multiprocessing.get_context("fork")
    claimed, forever = context.Event(), context.Event()
    tuner = context.Process(target=_claim_and_wait, args=(path, claimed, forever))
    tuner.start()
    assert claimed.wait(120)
    with Journal(path) as mine:
        assert _claims(mine) == {A, B}
        os.kill(tuner.pid, signal.SIGKILL)
        tuner.join()
        assert _claims(mine) == set()
    assert not list(path.parent.glob(".*")), "the dead tuner's file is left"


def test_a_folder_that_cannot_be_written_hides_claims_and_is_said(path, monkeypatch):
    def refuse(*where):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    notices = []
    with Journal(path, notices.append) as journal:
        for claim in (A, B):
            with journal.turn() as turn:
                turn.claim([claim])
        assert turn.claimed() == {A, B}
    assert len(notices) == 1 and "cannot be written" in notices[0]
