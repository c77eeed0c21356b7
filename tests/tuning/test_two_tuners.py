"""`tune` twice at once on one record file, and a record file that is deleted below it."""

import threading
from concurrent.futures import Future

import pytest
from test_sharing import DEVICE, TARGET, WORKLOAD

from autoq.devices import Host
from autoq.measure.job import Measurement
from autoq.records import read_records
from autoq.report.events import Notice, TrialsMeasured
from autoq.tuner import tune


class Gone(Exception):
    """The tuner ends as if it were killed, with candidates under way."""


class SlowMeasurer:
    """Answers after some milliseconds, in a thread of its own; fails after `lives` candidates.

    It takes none before `first`, another measurer, has begun to fail.
    """

    pipelined = True
    device = DEVICE

    def __init__(self, lives=10**9, first=None):
        self.measured = []
        self.failing = threading.Event()
        self._lives = lives
        self._first = first

    def submit(self, job):
        if self._first is not None:
            assert self._first.failing.wait(300)
        future = Future()
        self.measured.append(job.config)
        if len(self.measured) <= self._lives:
            wait = 0.003 * (1 + len(self.measured) % 5)
            threading.Timer(wait, future.set_result, [_measurement(job)]).start()
        else:
            self.failing.set()
            threading.Timer(0.1, future.set_exception, [Gone()]).start()
        return future

    def compare(self, jobs, timing):
        future = Future()
        future.set_result([_measurement(job) for job in jobs])
        return future

    def cancel(self):
        pass

    def close(self):
        pass


def _measurement(job):
    return Measurement(seconds=1e-4 / (1 + job.config.a + job.config.b), repeats=9)


def _trials(path):
    """The records of candidates, without those of comparisons."""
    return [record for record in read_records(path).records if not record.confirmed]


def _tune(path, trials, measurer, **options):
    return tune(
        [WORKLOAD],
        trials=trials,
        output=path,
        target=Host(TARGET, DEVICE.name),
        registry="test_sharing:TEMPLATES",
        measurer=measurer,
        tuner="random",
        until_gain=0,
        **options,
    )


def _both(path, trials, measurers, **options):
    """Summaries of two tuners at once; an exception in place of one that failed."""
    ends = [None, None]

    def run(at):
        try:
            ends[at] = _tune(path, trials, measurers[at], **options)
        except Exception as error:
            ends[at] = error

    threads = [threading.Thread(target=run, args=(at,)) for at in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive(), "a tuner never ends"
    return ends


@pytest.mark.parametrize("trials", [64, 100, 1000])
def test_two_tuners_measure_every_candidate_once_and_share_the_trials(tmp_path, trials):
    path = tmp_path / "log.jsonl"
    measurers = SlowMeasurer(), SlowMeasurer()
    ends = _both(path, trials, measurers)
    records = _trials(path)
    total = min(trials, 128)  # The space has no more.
    assert len(records) == total == len({record.identity for record in records})
    assert [end.measured for end in ends] == [len(one.measured) for one in measurers]
    assert sum(end.measured for end in ends) == total
    fastest = min(record.seconds for record in records)
    assert [end.rows[0].seconds for end in ends] == [fastest] * 2
    assert [(end.rows[0].trials, end.reason) for end in ends] == [(total, "trials")] * 2
    assert [file.name for file in tmp_path.iterdir()] == ["log.jsonl"]


def test_what_a_tuner_that_dies_had_claimed_is_measured_by_the_other(tmp_path):
    path = tmp_path / "log.jsonl"
    dying = SlowMeasurer(lives=5)
    other = SlowMeasurer(first=dying)
    ends = _both(path, 1000, (dying, other))
    assert isinstance(ends[0], Gone)
    records = _trials(path)
    assert len(records) == 128 == len({record.identity for record in records})
    assert ends[1].measured == 128 - 5


def test_a_deleted_record_file_is_said_and_written_again(tmp_path):
    path = tmp_path / "log.jsonl"
    events = []

    def watch(event):
        events.append(event)
        if isinstance(event, TrialsMeasured) and event.done >= 20 and not deleted:
            deleted.append(event.done)
            path.unlink()

    deleted = []
    summary = _tune(path, 64, SlowMeasurer(), on_event=watch)
    assert summary.measured == 64 == len(_trials(path))
    (notice,) = (event for event in events if isinstance(event, Notice))
    assert f"was deleted; its {deleted[0]} lines are written again" in notice.text
