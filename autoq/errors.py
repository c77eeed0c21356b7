"""The errors that autoq raises: one root, so that a caller can catch all of them at once."""

from __future__ import annotations


class AutoqError(Exception):
    """Root of every error that autoq raises on purpose.

    The message is one line that names the file, node or option, what was found, what is allowed
    and what to do; the command line prints it without a traceback and exits with code 2. Line
    breaks and other characters that no terminal should get, such as names in a mangled model may
    hold, are written as escapes.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__("".join(c if c.isprintable() else _escaped(c) for c in message))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


class ModelError(AutoqError, ValueError):
    """A model file that cannot be read, or that holds something autoq cannot compile."""


class InputError(AutoqError, ValueError):
    """An argument, option or array whose name, shape, dtype or value is not allowed."""


class RecordError(AutoqError, ValueError):
    """A tuning-record file that is not one, or that cannot be written."""


class ArtifactError(AutoqError, ValueError):
    """A compiled module that cannot be read or that does not fit this machine."""


class TargetError(AutoqError, ValueError):
    """A target that is unknown, or whose device or compiler is not there."""


class ConfigError(AutoqError, ValueError):
    """A kernel configuration that names unknown knobs or breaks a rule of its space."""


class DriverError(AutoqError, RuntimeError):
    """The CUDA driver refused a call; carries its error name."""


class BuildError(AutoqError, RuntimeError):
    """A kernel that could not be lowered or compiled; carries the compiler's first complaint."""


class EnvironmentFault(AutoqError, RuntimeError):
    """The machine's failure: no disk, memory, compiler or device; no candidate's or model's."""


class LibraryError(AutoqError, RuntimeError):
    """Another library that is not here, refuses a call, or computes something wrong."""


class CompilerDied(AutoqError, RuntimeError):
    """nvcc, or one of the programs it runs, died of a signal.

    outside: whether somebody else sent it, such as the kernel's out-of-memory killer.
    """

    def __init__(self, message: str, outside: bool) -> None:
        super().__init__(message)
        self.outside = outside
