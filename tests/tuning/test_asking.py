"""Strategies in processes of their own answer as they do in this one."""

import os
import signal

import pytest
from test_scheduler import TEMPLATES, seconds

from autoq.devices import resolve
from autoq.errors import EnvironmentFault
from autoq.measure.job import REGISTRY, load_registry
from autoq.process.child import Child, ChildCrash
from autoq.search.trial import Trial
from autoq.search.union import Candidate
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target
from autoq.tuning.asking import LocalAsker, ParallelAsker, Question, SearchSettings

TARGET = Target("cpu", "generic")
HOPPER = resolve("cuda:sm_90a").target
SETTINGS = SearchSettings("test_scheduler:TEMPLATES", TARGET, "diverse")
WORKLOADS = [Gemm(64, 64, 64), Gemm(128, 64, 64), Gemm(256, 64, 64)]


def _conversation(asker, after_a_round=lambda: None, first=0):
    """Three rounds of questions for the three tasks from `first` on, all of a round at once."""
    told = {workload: [] for workload in WORKLOADS}
    heard = []
    for _ in range(3):
        futures = [
            asker.ask(Question(first + i, workload, ("replay",), i, 16, told[workload]))
            for i, workload in enumerate(WORKLOADS)
        ]
        for workload, future in zip(WORKLOADS, futures, strict=True):
            answer = future.result(300)
            heard.append(answer)
            told[workload] = [Trial(c, seconds=seconds(workload, vars(c.config))) for c in answer]
        after_a_round()
    return heard


@pytest.fixture(scope="module")
def parallel():
    asker = ParallelAsker(SETTINGS, size=2)
    yield asker
    asker.close()


def test_parallel_answers_equal_local_ones_and_never_repeat(parallel):
    assert [template.name for template in TEMPLATES] == ["replay"]
    heard = _conversation(parallel)
    assert heard == _conversation(LocalAsker(SETTINGS))
    for task in range(3):
        mine = [candidate for answer in heard[task::3] for candidate in answer]
        assert len(mine) == len(set(mine)) == 48


def test_the_defaults_of_other_templates_come_before_a_strategys_candidates():
    asker = LocalAsker(SearchSettings(REGISTRY, HOPPER, "random"))
    templates = [t for t in load_registry(REGISTRY).values() if t.matches(WORKLOADS[0], HOPPER)]
    templates = [template for template in templates if template.tunable]
    names = tuple(template.name for template in templates)
    first, *others = (Candidate(t.name, t.default(WORKLOADS[0], HOPPER)) for t in templates)
    assert others
    heard = []
    for n in (1, len(others), 8):
        question = Question(0, WORKLOADS[0], names, 0, n, (), opening=4)
        heard.append(asker.ask(question).result())
    assert heard[0] + heard[1] == others and len(heard[2]) == 8
    searched = asker.ask(Question(1, WORKLOADS[0], names, 0, 8, ())).result()
    assert heard[2] == searched and first not in heard[1]
    told = [Trial(others[0], seconds=1.0)]
    resumed = asker.ask(Question(2, WORKLOADS[0], names, 0, 1, told, opening=4)).result()
    assert len(resumed) == 1 and resumed[0] not in (first, others[0])


def test_a_killed_process_forgets_nothing(parallel, monkeypatch):
    told = []
    call = Child.call

    def listening(child, question, timeout):
        told.append(len(question.told))
        return call(child, question, timeout)

    monkeypatch.setattr(Child, "call", listening)

    rounds = iter([False, True, False])

    def kill_after_the_second():
        if next(rounds):
            os.kill(parallel._pools[0]._children[0].pid, signal.SIGKILL)

    heard = _conversation(parallel, kill_after_the_second, first=3)
    assert [len(answer) for answer in heard] == [16] * 9
    assert 32 in told, "the new process is told all trials"


def test_processes_that_die_again_and_again_end_the_run(parallel, monkeypatch):
    def die(child, question, timeout):
        raise ChildCrash("died of SIGKILL", outside=True)

    monkeypatch.setattr(Child, "call", die)
    future = parallel.ask(Question(6, WORKLOADS[0], ("replay",), 0, 16, ()))
    with pytest.raises(EnvironmentFault, match="search's process died of SIGKILL"):
        future.result(300)
