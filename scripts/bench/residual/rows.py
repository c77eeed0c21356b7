"""Rows of results: what a case is, and how rows of several runs come together in one file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compared_cases.row_lines import rounded

from autoq.templates.operators.residual_gemm import ResidualGemm

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A row of a table, by its name, what measures it, and the workloads that it compiles."""

    table: str
    name: str
    measure: Callable[[], Row]
    workloads: tuple[ResidualGemm, ...] = ()


def earlier_rows(path: Path) -> list[dict[str, Any]]:
    """The rows that a result holds already, none where it is not there."""
    if not path.exists():
        return []
    return list(json.loads(path.read_text())["rows"])


def of_table(result: Mapping[str, Any], table: str) -> list[Row]:
    """The rows of a table, none where it was not measured."""
    return [row for row in result["rows"] if row["table"] == table]


def when(rows: Sequence[Row]) -> str:
    """The dates and commits of rows, in words."""
    return "; ".join(sorted({f"{row['date']}, {row['commit'][:7]}" for row in rows}))


def merged(rows: Sequence[Row], new: Row, tables: Sequence[str]) -> list[Row]:
    """The rows with a new one in place of its own earlier form, else behind those of its table."""
    places = [i for i, row in enumerate(rows) if _key(row) == _key(new)]
    found = [new if index in places else row for index, row in enumerate(rows)]
    if not places:
        found.append(new)
    return sorted(found, key=lambda row: tables.index(row["table"]))


def write(path: Path, rows: Sequence[Row], paper: Mapping[str, Any]) -> None:
    """Write rows and the paper's own figures, a line for each row."""
    lines = ",\n".join(f"  {json.dumps(rounded(row))}" for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{{\n "rows": [\n{lines}\n ],\n "paper": {json.dumps(paper, indent=1)}\n}}\n')


def _key(row: Row) -> tuple[str, str]:
    return row["table"], row["case"]
