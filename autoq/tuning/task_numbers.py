"""The `--tasks` option: all, or numbers and ranges such as 0,2-5."""

from __future__ import annotations

from autoq.errors import InputError


def task_numbers(text: str, count: int) -> list[int]:
    """Positions that `text` names among `count` tasks, ascending and distinct.

    Raises InputError for anything but "all" or comma-separated numbers and ranges in bounds.
    """
    if text == "all":
        return list(range(count))
    chosen: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise InputError(
                f"--tasks {text!r}: {part.strip()!r} is neither a task number nor a range such "
                "as 2-5; give all, or numbers such as 0,2-5 of autoq tune --tasks list"
            )
        begin, end = int(first), int(last) if dash else int(first)
        if begin > end or end >= count:
            raise InputError(
                f"--tasks {text!r}: {part.strip()!r} names no task; "
                f"tasks are 0 to {count - 1} (see autoq tune --tasks list)"
            )
        chosen.update(range(begin, end + 1))
    return sorted(chosen)
