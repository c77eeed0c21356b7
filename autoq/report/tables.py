"""The tables that autoq prints: tasks, the summary of a tuning run, and a profile by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autoq.report.events import TaskRow, TuneSummary
from autoq.report.text import clock, counted, counts, duration, share, table, tera

if TYPE_CHECKING:
    from autoq.session import LayerTime

_ENDINGS = {
    "trials": "finished",
    "gain": "ended for want of gains",
    "time": "stopped at the time budget",
    "interrupted": "interrupted",
}


def tasks_table(rows: Sequence[TaskRow]) -> str:
    """The distinct workloads of a model, with the best record known of each."""
    header = (
        "task", "operator", "workload", "in -> out", "dtypes", "count", "Gop", "best", "TOPS",
        "roofline", "template", "record",
    )  # fmt: skip
    cells = [
        (row.index, operator(row), row.workload, shapes(row), dtypes(row), row.count,
         f"{row.workload.operations / 1e9:.3g}", duration(row.seconds), tera(row.tops),
         share(row.roofline_share), row.template or "-", row.source or "untuned default")
        for row in rows
    ]  # fmt: skip
    text = ("operator", "workload", "in -> out", "dtypes", "template", "record")
    return table(header, cells, text)


def operator(row: TaskRow) -> str:
    """The kind of workload, as in records: "conv2d", "gemm"."""
    return row.workload.operator


def shapes(row: TaskRow) -> str:
    """Shapes of the first input and the output: "8x56x56x64 -> 8x56x56x64"."""
    ends = (row.workload.inputs[0], row.workload.outputs[0])
    return " -> ".join("x".join(map(str, spec.shape)) for spec in ends)


def dtypes(row: TaskRow) -> str:
    """Dtypes of x, weight and y, and of further inputs: "int8 int8 int8 +int8"."""
    x, *further = row.workload.inputs
    weight = row.workload.constant("weight")
    specs = (x, *([weight] if weight else ()), *row.workload.outputs)
    return " ".join([*(spec.dtype for spec in specs), *(f"+{spec.dtype}" for spec in further)])


def summary_table(summary: TuneSummary) -> str:
    """How a tuning run ended: a line for each task, then totals."""
    header = (
        "task", "workload", "count", "trials", "failed", "default", "best", "TOPS", "roofline",
        "template",
    )  # fmt: skip
    cells = [
        (row.index, row.workload, row.count, row.trials, row.failures.total(),
         duration(row.default_seconds), duration(row.seconds), tera(row.tops),
         share(row.roofline_share), _chosen(row))
        for row in summary.rows
    ]  # fmt: skip
    lines = [
        table(header, cells, ("workload", "template")),
        "",
        ending_line(summary),
        f"{_together(summary)}; "
        + (f"records in {summary.output}" if any(r.trials for r in summary.rows) else "no records"),
    ]
    rows = summary.rows
    for chosen, text in (
        ([r for r in rows if r.seconds is None and not r.trials],
         "not reached, on their untuned default"),
        ([r for r in rows if r.seconds is None and r.trials], "without a working kernel yet"),
        ([r for r in rows if r.unsettled],
         "not yet compared with their default in turn, as the next run with this output does"),
    ):  # fmt: skip
        if chosen:
            numbers = ", ".join(str(row.index) for row in chosen)
            lines.append(f"{text}: {len(chosen)} of {len(rows)} tasks ({numbers})")
    if summary.skipped:
        lines.append(f"records not used: {counts(summary.skipped)}")
    return "\n".join(lines)


def ending_line(summary: TuneSummary) -> str:
    """Why and when a run ended, and what it measured."""
    return (
        f"{_ENDINGS[summary.reason]} after {clock(summary.elapsed_seconds)} on {summary.device}: "
        f"{counted(summary.measured, 'trial')} measured, failures: {counts(summary.failures)}"
    )


def _chosen(row: TaskRow) -> str:
    """The template of the best kernel, and whether that is the untuned default."""
    if row.seconds is None:
        return "-" if row.trials else "untuned default"
    return f"{row.template} (default)" if row.untuned else row.template


def _together(summary: TuneSummary) -> str:
    """The time of all tuned kernels, beside that of their untuned defaults where it is known."""
    untuned = summary.untuned_seconds
    measured = all(row.seconds is not None for row in summary.rows)
    text = f"tuned kernels of the {'model' if measured else 'measured tasks'} together: "
    text += duration(summary.total_seconds)
    return text if untuned is None else f"{text}, untuned {duration(untuned)}"


def profile_table(layers: Sequence[LayerTime]) -> str:
    """Time by layer of a compiled model, with its share of the whole and of the roofline.

    The stages of a layer's kernel, where it has several, stand below it and count no further.
    """
    total = sum(layer.seconds for layer in layers)
    header = ("layer", "workload", "template", "record", "time", "of model", "TOPS", "roofline")
    cells: list[Sequence[object]] = []
    for layer in layers:
        call, seconds = layer.call, layer.seconds
        tops = call.operations / seconds / 1e12 if seconds else None
        floor = call.roofline_seconds / seconds if seconds and call.roofline_seconds else None
        part = seconds / total if total else None
        cells.append(
            (call.layer, call.workload, call.template, call.source, duration(seconds),
             share(part), tera(tops), share(floor))
        )  # fmt: skip
        for number, stage in enumerate(layer.stages, 1):
            name = f"  stage {number} of {len(layer.stages)}"
            part = stage / total if total else None
            cells.append((name, "", "", "", duration(stage), share(part), "", ""))
    cells.append(("total", "", "", "", duration(total), "100%", "", ""))
    return table(header, cells, ("layer", "workload", "template", "record"))
