"""Candidates whose process died: a second try alone, and whose fault it was in the end."""

import logging
from concurrent.futures import Future

import pytest
from fake_templates import workload

from autoq.errors import EnvironmentFault
from autoq.measure.job import CRASH, OUTSIDE, UNTRIED, Job, Measurement
from autoq.measure.retries import Retries

FINE = Measurement(seconds=1e-6)
CRASHED = Measurement(failure="runtime", message="the worker died of SIGSEGV", death=CRASH)
KILLED = Measurement(failure="compile", message="the compiler died of SIGKILL", death=OUTSIDE)


class Attempts:
    """Tries that end when the test says how."""

    def __init__(self):
        self.open = {}
        self.started = []
        self.retries = Retries(self.attempt)

    def attempt(self, job):
        self.started.append(job.config)
        self.open[job.config] = future = Future()
        return future

    def submit(self, name):
        return self.retries.submit(Job(workload(), "fake", name))

    def end(self, name, found):
        self.open.pop(name).set_result(found)


@pytest.fixture
def attempts():
    return Attempts()


def test_a_lone_death_is_no_failure(attempts):
    a, b = attempts.submit("a"), attempts.submit("b")
    attempts.end("a", CRASHED)
    assert attempts.started == ["a", "b"], "nothing may run beside the second try"
    c = attempts.submit("c")
    attempts.end("b", FINE)
    assert attempts.started == ["a", "b", "a"] and b.result() == FINE
    attempts.end("a", FINE)
    assert a.result() == FINE
    assert attempts.started == ["a", "b", "a", "c"]
    attempts.end("c", FINE)
    assert c.result() == FINE


def test_a_second_crash_is_the_candidates(attempts):
    a = attempts.submit("a")
    attempts.end("a", CRASHED)
    attempts.end("a", CRASHED)
    assert (a.result().failure, a.result().death) == ("runtime", "")


def test_several_suspects_are_tried_one_after_another(attempts):
    found = [attempts.submit(name) for name in "abc"]
    for name in "abc":
        attempts.end(name, KILLED)
    for name in "abc":
        assert list(attempts.open) == [name]
        attempts.end(name, FINE)
    assert [future.result() for future in found] == [FINE] * 3


def test_a_kill_and_a_crash_leave_the_candidate_another_try(attempts):
    a = attempts.submit("a")
    for ending in (KILLED, CRASHED, KILLED, FINE):
        attempts.end("a", ending)
    assert a.result() == FINE


def test_kills_from_outside_are_never_a_failure(attempts, caplog):
    a = attempts.submit("a")
    with caplog.at_level(logging.WARNING, "autoq"):
        while attempts.open:
            attempts.end("a", KILLED)
    assert a.result().failure == UNTRIED
    assert "no record: the compiler died of SIGKILL" in caplog.text


def test_a_machine_that_lets_nothing_be_tried_ends_the_run(attempts):
    found = [attempts.submit(name) for name in "abcd"]
    for name in "abcd":
        attempts.end(name, KILLED)
    while attempts.open:
        attempts.end(next(iter(attempts.open)), KILLED)
    assert [future.result().failure for future in found[:2]] == [UNTRIED] * 2
    with pytest.raises(EnvironmentFault, match=r"3 candidates in a row.*SIGKILL.*run it again"):
        found[2].result()


def test_a_candidate_that_is_tried_ends_the_row(attempts):
    for name in "abcd":
        future = attempts.submit(name)
        while attempts.open:
            attempts.end(name, FINE if name == "b" else KILLED)
        assert (future.result() == FINE) == (name == "b")


def test_faults_of_the_machine_pass_through(attempts):
    a = attempts.submit("a")
    attempts.open.pop("a").set_exception(EnvironmentFault("no disk"))
    with pytest.raises(EnvironmentFault, match="no disk"):
        a.result()


def test_cancelling_drops_what_waits(attempts):
    a, b = attempts.submit("a"), attempts.submit("b")
    attempts.end("a", CRASHED)
    c = attempts.submit("c")
    attempts.retries.cancel()
    assert a.cancelled() and c.cancelled()
    attempts.end("b", FINE)
    assert b.result() == FINE and not attempts.open
    attempts.submit("d")
    attempts.retries.close()
    attempts.end("d", KILLED)
    assert not attempts.open
