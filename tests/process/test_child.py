"""Child processes: replies, deaths, time limits."""

import errno
import gc
import logging
import os
import signal
import time

import pytest

from autoq.errors import EnvironmentFault, TargetError
from autoq.process.child import Child, ChildCrash, ChildError, ChildTimeout, Entry


def serve(argument):
    """The handler that the children of these tests run."""

    def handle(request):
        name, value = request
        if name == "fail":
            raise ValueError(f"cannot\nhandle {value}")
        if name == "exit":
            os.write(2, b"last words\n")
            os._exit(value)
        if name == "raise":
            raise value
        if name == "warn":
            logging.getLogger("autoq.test").warning(value)
        if name == "sleep":
            time.sleep(value)
        if name == "print":
            print(value, flush=True)
        if name == "garbage":
            return gc.isenabled(), gc.get_freeze_count()
        return argument, value, os.getpid()

    return handle


def refuse(argument):
    raise RuntimeError(f"no {argument} here")


@pytest.fixture
def child():
    child = Child(Entry("test_child", "serve", "hello"))
    yield child
    child.kill()


def test_requests_of_any_size_come_back(child):
    for size in (0, 1, 1 << 16, 1 << 22):
        argument, value, pid = child.call(("echo", b"x" * size), 60)
        assert argument == "hello" and len(value) == size and pid == child.pid


def test_garbage_is_collected_but_not_looked_for_in_modules(child):
    collecting, frozen = child.call(("garbage", None), 60)
    assert collecting and frozen > 10_000


def test_what_a_request_prints_does_not_disturb_replies(child):
    assert child.call(("print", "noise " * 1000), 60)[1].startswith("noise")


def test_an_exception_comes_back_in_one_line_and_the_child_lives(child):
    pid = child.call(("echo", 1), 60)[2]
    with pytest.raises(ChildError, match="ValueError: cannot handle 7"):
        child.call(("fail", 7), 60)
    assert child.call(("echo", 1), 60)[2] == pid


def test_a_death_is_told_with_its_last_words_and_the_next_request_gets_a_new_child(child):
    pid = child.call(("echo", 1), 60)[2]
    with pytest.raises(ChildCrash, match="exited 3: last words"):
        child.call(("exit", 3), 60)
    assert not child.alive
    assert child.call(("echo", 1), 60)[2] != pid


def test_a_late_answer_kills_the_child_before_it_is_reported(child):
    pid = child.call(("echo", 1), 60)[2]
    started = time.monotonic()
    with pytest.raises(ChildTimeout, match=r"within 0\.3 s"):
        child.call(("sleep", 60), 0.3)
    assert time.monotonic() - started < 50
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_child_that_cannot_start_says_why():
    child = Child(Entry("test_child", "refuse", "device"))
    with pytest.raises(ChildCrash, match="could not start: RuntimeError: no device here"):
        child.call(("echo", 1), 60)
    assert not child.alive


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        FileNotFoundError(errno.ENOENT, "No such file or directory"),
        TargetError("nvcc not found"),
        EnvironmentFault("nvcc cannot be run"),
    ],
)
def test_a_fault_of_the_machine_is_told_as_one(child, error):
    pid = child.call(("echo", 1), 60)[2]
    with pytest.raises(EnvironmentFault, match=r"o space|o such file|nvcc"):
        child.call(("raise", error), 60)
    assert child.call(("echo", 1), 60)[2] == pid


@pytest.mark.parametrize(
    ("error", "outside"),
    [
        (MemoryError(), True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True),
        (RuntimeError("can't start new thread"), True),
        (EnvironmentFault("nvcc cannot be run: Cannot allocate memory"), True),
        (ValueError("a bug"), False),
    ],
)
def test_a_want_of_memory_is_not_the_requests_fault(child, error, outside):
    with pytest.raises(ChildError) as raised:
        child.call(("raise", error), 60)
    assert raised.value.outside == outside


@pytest.mark.parametrize(("number", "outside"), [("SIGKILL", True), ("SIGSEGV", False)])
def test_a_death_says_whether_somebody_else_ended_it(child, number, outside):
    pid = child.call(("echo", 1), 60)[2]
    os.kill(pid, getattr(signal, number))
    with pytest.raises(ChildCrash, match=f"died of {number}") as raised:
        child.call(("echo", 1), 60, start=False)
    assert raised.value.outside == outside
    with pytest.raises(ChildCrash, match="was not running"):
        child.call(("echo", 1), 60, start=False)


def test_what_a_child_warns_of_is_said_once(child, caplog):
    with caplog.at_level(logging.WARNING, "autoq"):
        for _ in range(2):
            child.call(("warn", "the cache is full"), 60)
    assert [record.getMessage() for record in caplog.records] == ["the cache is full"]


def test_no_room_for_a_child_is_the_machines_fault(child, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr("autoq.process.child.subprocess.Popen", refuse)
    with pytest.raises(EnvironmentFault, match="worker process cannot be started"):
        child.call(("echo", 1), 60)
