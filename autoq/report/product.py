"""What `autoq gemm` prints: the times of one product, those of a library beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autoq.report.events import TaskRow, TuneSummary
from autoq.report.tables import ending_line
from autoq.report.text import duration, knob_lines, knobs_text, share, table, tera
from autoq.templates.arrays.element import element


@dataclass(frozen=True)
class Line:
    """Something that computes the product: its seconds, None for unknown, and how it does so.

    knobs: those of a template, whose name is `how`; None for others.
    """

    name: str
    seconds: float | None
    how: str
    knobs: Mapping[str, object] | None = None


def product_text(summary: TuneSummary, untuned: Line, beside: Line | str, floor: float) -> str:
    """The report of a tuning run of one product.

    untuned: the default that is used without tuning; beside: a library's line, or why there is
    none; floor: the product's least seconds by the target's rates, 0 where they are unknown.
    """
    (row,) = summary.rows
    lines = [untuned, _best(row), *([] if isinstance(beside, str) else [beside])]
    operations = row.workload.operations
    unit = "TFLOPS" if element(row.workload.inputs[0].dtype).floating else "TOPS"
    cells = [
        (line.name, duration(line.seconds),
         tera(operations / line.seconds / 1e12 if line.seconds else None),
         share(floor / line.seconds if line.seconds and floor else None), line.how)
        for line in lines
    ]  # fmt: skip
    return "\n".join(
        [
            table(("", "time", unit, "roofline", "how"), cells, ("", "how")),
            "",
            *_knob_text(row, untuned),
            *([beside] if isinstance(beside, str) else []),
            ending_line(summary),
        ]
    )


def _knob_text(row: TaskRow, untuned: Line) -> list[str]:
    """The knobs of the best kernel, and those that the untuned default has instead."""
    known = untuned.knobs or {}
    if row.seconds is None or row.untuned:
        return ["knobs of the untuned default:", *knob_lines(known), ""] if known else []
    if not row.config:
        return []
    lines = ["knobs of the best:", *knob_lines(row.config)]
    other = {name: value for name, value in known.items() if row.config.get(name) != value}
    if other and untuned.how == row.template:
        lines.append(f"where the untuned default has {knobs_text(other)}")
    return [*lines, ""]


def _best(row: TaskRow) -> Line:
    if row.seconds is None:
        return Line("best", None, "none works yet" if row.trials else "none was measured")
    how = "the untuned default" if row.untuned else row.template
    return Line("best", row.seconds, how + (", not yet compared in turn" if row.unsettled else ""))
