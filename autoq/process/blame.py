"""Whose fault a failure is: the candidate's, or that of the machine on which it was tried."""

from __future__ import annotations

import errno
import re
import signal

_CRASHES = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS")

# How the Python errors of a machine begin, where a failure's message starts with one.
_ERRORS = (
    "OSError",
    "IOError",
    "PermissionError",
    "FileNotFoundError",
    "FileExistsError",
    "NotADirectoryError",
    "IsADirectoryError",
    "BlockingIOError",
    "InterruptedError",
    "BrokenPipeError",
    "ConnectionResetError",
    "ProcessLookupError",
    "MemoryError",
    "_ArrayMemoryError",
    "ImportError",
    "ModuleNotFoundError",
    "EOFError",
    "UnpicklingError",
    "TargetError",
    "EnvironmentFault",
    "MeasureError",
    "CompilerDied",
)
# What operating system, compilers and libraries say, anywhere in a message.
_COMPLAINTS = (
    r"\[Errno \d+\]",
    "no space left on device",
    "read-only file system",
    "disk quota exceeded",
    "input/output error",
    "file too large",
    "permission denied",
    "too many open files",
    "no such file or directory",
    "IO failure on output stream",
    "error while loading shared libraries",
    "cannot open shared object file",
    "nvcc not found",
)
_WANTS = (
    "failed to map segment",
    "cannot allocate memory",
    "memory allocation fail",
    "out of memory",
    "bad_alloc",
    "can't start new thread",
    "resource temporarily unavailable",
)
# CUDA's names of errors that no kernel causes.
_CUDA = (
    "NO_DEVICE",
    "INVALID_DEVICE",
    "DEVICE_UNAVAILABLE",
    "DEVICE_NOT_LICENSED",
    "OUT_OF_MEMORY",
    "SYSTEM_DRIVER_MISMATCH",
    "SYSTEM_NOT_READY",
    "COMPAT_NOT_SUPPORTED_ON_DEVICE",
    "STUB_LIBRARY",
    "OPERATING_SYSTEM",
    "ECC_UNCORRECTABLE",
    "NVLINK_UNCORRECTABLE",
    "MPS_[A-Z_]+",
)
# And of those that a kernel itself causes, or the way it is launched.
_KERNELS = (
    "ILLEGAL_ADDRESS",
    "ILLEGAL_INSTRUCTION",
    "MISALIGNED_ADDRESS",
    "INVALID_ADDRESS_SPACE",
    "INVALID_PC",
    "INVALID_VALUE",
    "INVALID_IMAGE",
    "INVALID_CLUSTER_SIZE",
    "INVALID_HANDLE",
    "NO_BINARY_FOR_GPU",
    "NOT_FOUND",
    "NOT_SUPPORTED",
    "HARDWARE_STACK_ERROR",
    "ASSERT",
    "LAUNCH_[A-Z_]+",
    "COOPERATIVE_LAUNCH_TOO_LARGE",
    "STREAM_CAPTURE_[A-Z_]+",
)
_OUTSIDE_NAMES = "|".join(number.name for number in signal.Signals if number.name not in _CRASHES)
_MACHINE = re.compile(
    "|".join(
        [
            rf"^(the (compiler|worker) )?(could not start: )?\w*\b({'|'.join(_ERRORS)}):",
            rf"(?i:{'|'.join((*_COMPLAINTS, *_WANTS))})",
            rf"CUDA_ERROR_({'|'.join(_CUDA)})\b",
            r"cuInit returned",
            rf"died of ({_OUTSIDE_NAMES})\b",
            r"^the (compiler|worker) (could not start|was interrupted|was not running|closed)",
            # LLVM says why it exits; one that cannot had no disk for its last words either.
            r"^the compiler exited \d+$",
        ]
    )
)


def machines_fault(message: str) -> bool:
    """Whether the message of a failure speaks of the machine: its disk, memory, tools, device.

    It knows the messages of `measure`, of compilers and of the CUDA driver; records of earlier
    versions hold such failures as if they were the candidates'.
    """
    return _MACHINE.search(message) is not None


def unclear(message: str) -> bool:
    """Whether it speaks of an error of CUDA that may be the machine's or the kernel's."""
    found = re.search(r"CUDA_ERROR_([A-Z_]+)", message)
    return found is not None and re.fullmatch("|".join(_KERNELS), found[1]) is None


def lacks_memory(error: BaseException | None) -> bool:
    """Whether an exception, or one behind it, is for want of memory.

    TVM's parser raises an error of its own, without a cause, where its Python lacks memory.
    """
    while error is not None:
        # A SystemError is C code of Python's or TVM's that failed and could not say why.
        if isinstance(error, MemoryError | SystemError):
            return True
        if getattr(error, "errno", None) == errno.ENOMEM:
            return True
        if re.search("|".join(_WANTS), str(error), re.IGNORECASE):
            return True
        error = error.__cause__ or error.__context__
    return False


def from_outside(number: int) -> bool:
    """Whether a process that died of this signal was ended by another, or by a limit."""
    try:
        return signal.Signals(number).name not in _CRASHES
    except ValueError:  # a real-time signal
        return True
