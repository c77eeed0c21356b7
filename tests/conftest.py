"""What all tests share; its place also lets them import `gpu_kernels` and `onnx_models`."""

from __future__ import annotations

import functools
import gc
import itertools
from collections.abc import Iterator
from pathlib import Path

import gpu_kernels
import pytest
from longest import file_seconds, longest_first, unnamed
from without_processes import without_processes

from autoq.runtime.cpu.threads import use_every_core
from autoq.runtime.cuda.driver import device_count

use_every_core()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of GPU tests."""
    group = parser.getgroup("GPU tests")
    group.addoption("--kernel-store", type=Path, help="folder that keeps the kernels of GPU tests")
    group.addoption(
        "--compile-only",
        metavar="TARGET",
        help="only fill --kernel-store with the GPU tests' kernels for TARGET, which needs no GPU",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Hand the options to `gpu_kernels`; --compile-only chooses the GPU tests."""
    options = gpu_kernels.OPTIONS
    options.folder = config.getoption("--kernel-store")
    options.compile_only = config.getoption("--compile-only")
    if options.compile_only:
        if options.folder is None:
            raise pytest.UsageError("--compile-only fills a folder: name it with --kernel-store")
        config.option.markexpr = "gpu"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Tests and modules stay: the garbage collector need not look through them again and again.

    It also looks less often than usual, through more objects at once: kernels in the making are
    tens of thousands of objects that are no garbage yet.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, so that no process is left with one of them at the end."""
    longest_first(items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which files tests/longest.py should name."""
    reports = itertools.chain.from_iterable(terminalreporter.stats.values())
    if names := unnamed(file_seconds(reports)):
        terminalreporter.write_line(f"among the longest, but not in tests/longest.py: {names}")


@pytest.fixture
def in_this_process() -> Iterator[None]:
    """Tuning starts no processes."""
    with without_processes():
        yield


@functools.cache
def _gpus() -> int:
    return device_count()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests marked `gpu` where there is no GPU, unless their kernels are to be compiled."""
    if item.get_closest_marker("gpu") and not _gpus() and not gpu_kernels.OPTIONS.compile_only:
        pytest.skip("needs a CUDA GPU")
