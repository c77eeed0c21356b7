"""Two tuners on one record file: every candidate is measured once, and the trials are shared."""

from dataclasses import dataclass

import pytest

from autoq.records import Device, Journal, Record
from autoq.records.database import Conditions
from autoq.search.space import Space
from autoq.search.union import Candidate
from autoq.templates.base import Template
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target
from autoq.tuning.sharing import Sharing
from autoq.tuning.task import ModelWorkload, Task

DEVICE = Device("Replay", "generic")
TARGET = Target("cpu", "generic", int8_rate=1e12, memory_rate=1e11)
WORKLOAD, OTHER = Gemm(64, 64, 64), Gemm(32, 32, 32)


@dataclass(frozen=True)
class ShareConfig:
    a: int
    b: int


TEMPLATES = (
    Template(
        "share",
        1,
        lambda workload, target: isinstance(workload, Gemm),
        lambda workload, target: Space(ShareConfig, {"a": tuple(range(16)), "b": tuple(range(8))}),
        lambda workload, target: ShareConfig(0, 0),
        lambda workload, config, target: None,
        lambda workload, config, constants: (),
        lambda workload, config: (),
    ),
)


def _record(candidate, workload=WORKLOAD, seconds=1e-4):
    config = {"a": candidate.config.a, "b": candidate.config.b}
    return Record(workload, "share", 1, config, DEVICE, "2026-11-20T12:00:00Z", seconds=seconds)


class Tuner:
    """A journal, a task and their sharing, without a loop around them."""

    def __init__(self, path, trials=100):
        self.journal = Journal(path)
        self.task = Task(0, ModelWorkload(WORKLOAD, 1), TEMPLATES, TARGET, 0)
        self.sharing = Sharing(
            self.journal,
            [self.task],
            DEVICE,
            Conditions("generic", "Replay", {"share": 1}),
            trials,
        )

    def admit(self, candidates):
        self.task.pending += len(candidates)
        admitted = self.sharing.admit([(self.task, candidate) for candidate in candidates])
        return [candidate for _, candidate in admitted]

    def record(self, candidates):
        records = [_record(candidate) for candidate in candidates]
        self.journal.append(records)
        self.task.tell(records)


@pytest.fixture
def two(tmp_path):
    tuners = Tuner(tmp_path / "log.jsonl"), Tuner(tmp_path / "log.jsonl")
    yield tuners
    for tuner in tuners:
        tuner.journal.close()


def _candidates(n, first=0):
    return [Candidate("share", ShareConfig(at % 16, at // 16)) for at in range(first, first + n)]


def test_what_another_tuner_measures_is_left_to_it(two):
    mine, other = two
    assert other.admit(_candidates(4)) == _candidates(4)
    assert mine.admit(_candidates(6)) == _candidates(2, 4)
    assert mine.task.pending == 2 and mine.sharing.elsewhere == 4


def test_records_of_another_tuner_count_as_trials_and_are_told(two):
    mine, other = two
    other.record(other.admit(_candidates(3)))
    assert mine.admit(_candidates(3)) == []
    assert (mine.task.trials, mine.task.pending, mine.sharing.elsewhere) == (3, 0, 0)
    assert mine.task.best_seconds == 1e-4
    _, question = mine.task.question(5)
    assert len(question.told) == 3


def test_records_of_other_tasks_and_devices_are_none_of_this_run(two):
    mine, other = two
    foreign = Record(**{**vars(_record(_candidates(1)[0])), "device": Device("A", "generic")})
    other.journal.append([_record(_candidates(1)[0], OTHER), foreign])
    assert mine.admit(_candidates(1)) == _candidates(1)
    assert mine.task.trials == 0


def test_both_together_have_no_more_than_the_trials(tmp_path):
    mine, other = Tuner(tmp_path / "log.jsonl", 10), Tuner(tmp_path / "log.jsonl", 10)
    other.record(other.admit(_candidates(4)))
    assert len(other.admit(_candidates(3, 4))) == 3
    assert mine.admit(_candidates(8, 20)) == _candidates(3, 20)
    assert other.admit(_candidates(8, 40)) == []


def test_candidates_of_a_tuner_that_ends_are_measured_by_the_other(two):
    mine, other = two
    other.admit(_candidates(4))
    assert mine.admit(_candidates(4)) == [] and mine.task.pending == 0
    other.record(_candidates(1))
    assert mine.sharing.abandoned() == [] and mine.sharing.awaits
    other.journal.close()
    abandoned = mine.sharing.abandoned()
    assert [candidate for _, candidate in abandoned] == _candidates(3, 1)
    assert (mine.task.pending, mine.task.trials, mine.sharing.awaits) == (3, 1, False)


def test_a_tuner_waits_only_for_what_was_under_way_when_it_had_nothing_left(two):
    mine, other = two
    other.admit(_candidates(2))
    assert mine.sharing.abandoned() == [] and mine.sharing.awaits
    other.record(_candidates(2))
    other.admit(_candidates(2, 2))
    assert mine.sharing.abandoned() == [] and mine.sharing.awaits  # There is news to look at.
    assert mine.sharing.abandoned() == [] and not mine.sharing.awaits


def test_candidates_that_are_given_back_are_free(two):
    mine, other = two
    other.admit(_candidates(2))
    other.sharing.give_back([(other.task, candidate) for candidate in _candidates(2)])
    assert mine.admit(_candidates(2)) == _candidates(2)
