"""Scratch folders: gone at the end, swept after a kill, never taken from the living."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from autoq import scratch
from autoq.errors import EnvironmentFault
from autoq.scratch import scratch_as_temporary_directory, scratch_folder, sweep


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_is_private_and_gone_afterwards(temporary):
    with pytest.raises(KeyError), scratch_folder() as folder:
        assert folder.parent == temporary and folder.stat().st_mode & 0o777 == 0o700
        (folder / "deep" / "er").mkdir(parents=True)
        (folder / "deep" / "file").write_text("x")
        raise KeyError
    assert not list(temporary.iterdir())


def test_a_sweep_takes_the_dead_ones_alone(temporary):
    code = (
        "import signal, os, sys; from autoq.scratch import scratch_folder\n"
        "with scratch_folder() as folder:\n"
        "    (folder / 'kernel.cu').write_text('x'); (folder / 'd').mkdir()\n"
        "    print(folder, flush=True); sys.stdin.read(1)"
    )
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    living, dead = (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        for _ in range(2)
    )
    names = [process.stdout.readline() for process in (living, dead)]
    dead.send_signal(signal.SIGKILL)
    dead.wait()
    with scratch_folder() as own:
        assert len(list(temporary.iterdir())) == 3
        sweep()
        left = {str(path) for path in temporary.iterdir()}
        assert left == {str(own), names[0].decode().strip()}
    living.communicate(b"x")
    assert not list(temporary.iterdir())


def test_a_sweep_leaves_what_is_not_autoqs(temporary):
    (temporary / "autoq-results").mkdir()
    (temporary / "autoq-scratch-elsewher").symlink_to(temporary / "autoq-results")
    (temporary / "autoq-scratch-newfoldr").mkdir()  # whose maker has not locked it yet
    (temporary / "autoq-scratch-abandond").mkdir()
    os.utime(temporary / "autoq-scratch-abandond", (0, 0))
    (temporary / "autoq-scratch-somebody").mkdir()
    (temporary / "autoq-scratch-somebody" / "work").touch()
    os.utime(temporary / "autoq-scratch-somebody", (0, 0))
    before = {path.name for path in temporary.iterdir()}
    sweep()
    assert before - {path.name for path in temporary.iterdir()} == {"autoq-scratch-abandond"}


def test_a_folder_swept_while_it_was_made_is_made_again(temporary, monkeypatch):
    lock, swept = scratch._lock, []

    def swept_first(descriptor):
        if not swept:
            (found,) = temporary.iterdir()
            scratch._remove(found)
            swept.append(found)
        return lock(descriptor)

    monkeypatch.setattr(scratch, "_lock", swept_first)
    with scratch_folder() as folder:
        assert folder.is_dir() and folder != swept[0]


def test_libraries_put_their_files_there(temporary):
    with scratch_as_temporary_directory(), tempfile.TemporaryDirectory(prefix="ort.") as folder:
        assert Path(folder).parent.name.startswith("autoq-scratch-")
    assert tempfile.gettempdir() == str(temporary) and not list(temporary.iterdir())


def test_no_room_is_said_in_one_line(temporary, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "missing"))
    with pytest.raises(EnvironmentFault, match=r"temporary directory.*No such file.*TMPDIR"), \
            scratch_folder():  # fmt: skip
        pass
    sweep()
