"""What a fuzzed case did wrong, and which findings are the same defect."""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_OURS = ("autoq", "search", "templates")
_LONGEST_MESSAGE = 300


@dataclass(frozen=True)
class Finding:
    """One case that failed.

    kind: "wrong" (an assertion of the subject), "escaped" (another exception), "died" or "hung".
    place: file and line of autoq where it happened, or "" where unknown.
    """

    case: int
    kind: str
    message: str
    place: str = ""

    @property
    def defect(self) -> tuple[str, str, str]:
        """Equal for findings that look like one defect: numbers and quoted names do not count."""
        words = re.sub(r"'[^']*'|\"[^\"]*\"|0x[0-9a-f]+|[-\d.]+", "#", self.message)
        return self.kind, words[:80], self.place

    def __str__(self) -> str:
        place = f" ({self.place})" if self.place else ""
        return f"case {self.case} {self.kind}: {self.message}{place}"


def from_exception(case: int, error: BaseException) -> Finding:
    """The finding of an exception that left a case."""
    lines = str(error).strip().splitlines() or [""]
    message = lines[0][:_LONGEST_MESSAGE]
    if isinstance(error, AssertionError):
        return Finding(case, "wrong", message or "an assertion without a message", _place(error))
    return Finding(case, "escaped", f"{type(error).__name__}: {message}", _place(error))


def _place(error: BaseException) -> str:
    """The innermost frame in autoq's own code, else the innermost of all."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if _folder(frame.filename) in _OURS]
    for frame in (ours or frames)[-1:]:
        return f"{_relative(frame.filename)}:{frame.lineno}"
    return ""


def _relative(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name


def _folder(filename: str) -> str:
    return _relative(filename).partition("/")[0]
