"""The verbs of `autoq logs` on a mangled file, and what each of them must then do.

Every check takes the folder to work in, the file, and what it holds, None when it is refused.
"""

from __future__ import annotations

import csv
import functools
import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import typer.main

from autoq.cli import main
from autoq.records import Lines, read_records

# Of a verb's 50 ms on a mangled file typer takes 40 to make the same commands anew.
typer.main.get_command = functools.cache(typer.main.get_command)


def run_verb(folder: Path, *arguments: object) -> tuple[int, str, str]:
    """A verb's exit code, stdout and stderr; stdout encodes as strictly as a terminal's."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    argv, sys.argv = sys.argv, ["autoq", *map(str, arguments)]
    here = Path.cwd()
    os.chdir(folder)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.argv = argv
        os.chdir(here)
    texts = []
    for stream in (out, err):
        stream.seek(0)
        texts.append(stream.read())
    assert code in (0, 2), f"exit code {code} of {arguments}"
    return int(code or 0), texts[0], texts[1]


def refused(code: int, out: str, err: str, found: Lines | None) -> bool:
    """Whether the verb refused the file; it must when the file was."""
    one_line = code == 2 and not out and err.startswith("autoq: ") and err.count("\n") == 1
    assert one_line == (found is None), f"code {code}, stdout {out!r}, stderr {err!r}"
    return one_line


def list_file(folder: Path, path: Path, found: Lines | None) -> None:
    code, out, err = run_verb(folder, "logs", "list", path)
    if not refused(code, out, err, found):
        assert code == 0 and (err.count("\n") == 1) == bool(found and found.skipped), err


def best_file(folder: Path, path: Path, found: Lines | None) -> None:
    code, out, err = run_verb(folder, "logs", "best", path)
    if not refused(code, out, err, found):
        assert found is not None and code == 0
        timed = any(record.seconds for record in found.records)
        assert timed == (out != "no timed records\n"), out


def merge_file(folder: Path, path: Path, found: Lines | None) -> None:
    code, out, err = run_verb(folder, "logs", "merge", path, "-o", "merged.jsonl")
    merged = folder / "merged.jsonl"
    if refused(code, out, err, found):
        assert not merged.exists()
        return
    assert found is not None and code == 0
    again = read_records(merged)
    assert not again.rejected and not again.torn
    assert {r.identity for r in again.records} == {r.identity for r in found.records}
    merged.unlink()


def export_file(folder: Path, path: Path, found: Lines | None) -> None:
    code, out, err = run_verb(folder, "logs", "export", path, "-o", "table.csv")
    if refused(code, out, err, found):
        assert not (folder / "table.csv").exists()
        return
    assert found is not None and code == 0
    with (folder / "table.csv").open(newline="", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == len(found.records)


def check_file(folder: Path, path: Path, found: Lines | None) -> None:
    code, out, err = run_verb(folder, "logs", "check", path)
    if not refused(code, out, err, found):
        assert found is not None
        damaged = len(found.rejected) + found.torn
        assert out.count("\n") >= 1 + damaged and code == (2 if "damaged" in out else 0)
        assert ("damaged" in out) >= bool(damaged)


def repair_file(folder: Path, path: Path, found: Lines | None) -> None:
    copy = folder / "repaired.jsonl"
    data = path.read_bytes()
    copy.write_bytes(data)
    code, out, err = run_verb(folder, "logs", "check", "--repair", copy)
    backup = folder / "repaired.jsonl.bak"
    if refused(code, out, err, found):
        assert copy.read_bytes() == data and not backup.exists()
        return
    assert code == 0 and (not backup.exists() or backup.read_bytes() == data)
    assert backup.exists() or copy.read_bytes() == data
    kept = copy.read_bytes().split(b"\n")
    assert set(kept) <= {b"", *data.split(b"\n")}
    if kept != [b""]:
        code, out, err = run_verb(folder, "logs", "check", copy)
        assert code == 0 and ": sound, " in out, out
    copy.unlink()
    backup.unlink(missing_ok=True)


CHECKS = (list_file, best_file, merge_file, export_file, check_file, repair_file)
