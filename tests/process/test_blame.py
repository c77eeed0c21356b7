"""Whose fault a failure is, by its message."""

import pytest

from autoq.process.blame import from_outside, lacks_memory, machines_fault, unclear

MACHINES = (
    "OSError: [Errno 30] Read-only file system: '/root/.cache/autoq/kernels'",
    "NotADirectoryError: [Errno 20] Not a directory: '/tmp/c/kernels'",
    "OSError: [Errno 28] No space left on device",
    "MemoryError: no message",
    "_ArrayMemoryError: Unable to allocate 3.2 GiB for an array",
    "TargetError: nvcc failed: no output",
    "nvcc failed: ptxas fatal : Memory allocation failure",
    "LLVM code generation failed: std::bad_alloc",
    "RuntimeError: can't start new thread",
    "the worker died of SIGKILL",
    "the compiler died of SIGTERM: Terminated",
    "the compiler died of SIGXFSZ",
    "the compiler exited 1: LLVM ERROR: IO failure on output stream: File too large",
    "the compiler exited 1",
    "the compiler could not start: ImportError: cannot import name 'TCol'",
    "the worker was not running",
    "cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY",
    "cuCtxSynchronize failed: CUDA_ERROR_ECC_UNCORRECTABLE",
)
CANDIDATES = (
    "the compiler refuses",
    "nvcc failed: kernel.cu(12): error: identifier is undefined",
    "nvcc failed: ptxas error   : Entry function uses too much shared data",
    "ptxas: (C7512) Potential Performance Loss: wgmma.mma_async serialized",
    "compiling took longer than 120 s",
    "the worker died of SIGSEGV",
    "the worker died of SIGABRT: *** stack smashing detected ***",
    "the worker exited 3",
    "ZeroDivisionError: a bug in the template",
    "cuCtxSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS",
    "cuLaunchKernelEx failed: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    "384 of 384 elements wrong; first at [0, 0]: 1 instead of 2",
    "",
)


@pytest.mark.parametrize("message", MACHINES)
def test_the_machine_is_to_blame(message):
    assert machines_fault(message)


@pytest.mark.parametrize("message", CANDIDATES)
def test_the_candidate_is_to_blame(message):
    assert not machines_fault(message)


def test_signals_that_somebody_sends():
    assert [from_outside(number) for number in (9, 15, 1, 24, 25, 40)] == [True] * 6
    assert [from_outside(number) for number in (11, 6, 7, 8, 4)] == [False] * 5


def test_errors_of_cuda_that_may_be_anybodys():
    assert unclear("cuCtxSynchronize failed: CUDA_ERROR_UNKNOWN")
    assert unclear("cuModuleLoadData failed: CUDA_ERROR_MAP_FAILED")
    for name in ("ILLEGAL_ADDRESS", "LAUNCH_FAILED", "INVALID_VALUE"):
        assert not unclear(f"cuCtxSynchronize failed: CUDA_ERROR_{name}")
    assert not unclear("the worker died of SIGSEGV")


@pytest.mark.parametrize("want", [MemoryError(), SystemError("error return without exception set")])
def test_want_of_memory_behind_an_error_that_hides_it(want):
    """TVM's parser raises its own error, "error:  --> file:37:9", without a cause."""
    try:
        try:
            raise want
        except type(want) as error:
            raise RuntimeError(f"error: {error} --> kernel.py:37:9")  # noqa: B904
    except RuntimeError as error:
        assert lacks_memory(error)


def test_an_error_of_the_parser_alone_is_the_candidates():
    try:
        try:
            raise ValueError("5 is no power of two")
        except ValueError as error:
            raise RuntimeError(f"error: {error} --> kernel.py:37:9") from error
    except RuntimeError as error:
        assert not lacks_memory(error)
