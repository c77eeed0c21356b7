"""The kernel cache on the command line: worked without, or refused where others may write."""

import errno
import logging
import os

import pytest

from autoq import cache


def test_a_cache_that_others_may_write_is_refused(refuses, model, folder, monkeypatch):
    (folder / "kernels").mkdir()
    (folder / "kernels").chmod(0o777)
    monkeypatch.setenv("AUTOQ_CACHE_DIR", str(folder))
    words = ("kernels: others may write", "mode 0777", "chmod 0700", "AUTOQ_CACHE_DIR")
    refuses("compile", model, "--target", "cpu", "-o", "m.tar", words=words)
    refuses("tune", model, "--target", "cpu", "-o", "m.jsonl", words=words)


@pytest.mark.parametrize("trouble", ["file", "read-only", "full"])
def test_a_model_compiles_without_its_cache(autoq, model, folder, monkeypatch, trouble):
    monkeypatch.setenv("AUTOQ_CACHE_DIR", str(folder))
    monkeypatch.setattr(
        logging.getLogger(), "level", logging.ERROR
    )  # as `autoq quantize` leaves it
    number = {"file": errno.ENOTDIR, "read-only": errno.EROFS, "full": errno.ENOSPC}[trouble]
    if trouble == "file":
        (folder / "kernels").touch()

    def refuse(*arguments, **options):
        raise OSError(number, os.strerror(number))

    def full(descriptor):
        if "/kernels/" in os.readlink(f"/proc/self/fd/{descriptor}"):
            refuse()

    if trouble == "read-only":
        monkeypatch.setattr(cache.tempfile, "mkstemp", refuse)
    if trouble == "full":
        monkeypatch.setattr(cache.os, "fsync", full)
    done = autoq("compile", model, "--target", "cpu", "-o", "m.tar")
    assert done.code == 0 and "wrote m.tar" in done.out
    assert done.err == (
        f"autoq: {folder}/kernels: the cache cannot be used ({os.strerror(number)}); "
        "going on without it\n"
    )
