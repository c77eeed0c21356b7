"""What `autoq compile` says: every layer, its kernel and where that choice came from."""

from __future__ import annotations

from collections import Counter

from autoq.compilation.compiler import CompileReport
from autoq.graph.float_kernels import FloatKernels
from autoq.report.text import counts, duration, table

_NAMED = 5
"""Layers that a line names."""


def compile_text(report: CompileReport) -> str:
    """A line for each layer, then totals; layers on untuned defaults are named as such."""
    header = ("layer", "workload", "template", "configuration from", "roofline")
    cells = [
        (call.layer, call.workload, call.template, _source(call.source),
         duration(call.roofline_seconds or None))
        for call in report.calls
    ]  # fmt: skip
    sources = Counter(_source(call.source) for call in report.calls)
    lines = [
        table(header, cells, header[:4]),
        "",
        f"{len(report.calls)} kernels for {report.host.target.kind} {report.host.target.arch}: "
        f"{counts(sources)}",
    ]
    if report.layouts:
        pairs = {" to ".join(dict.fromkeys(pair)): n for pair, n in report.layouts.items()}
        copies = f"; {report.relayouts} re-layouts" if report.relayouts else ""
        lines.append(f"layouts of convolutions: {counts(pairs)}{copies}")
    if report.untuned:
        lines.append(
            f"{len(report.untuned)} layers run on an untuned default; tune them with autoq tune"
        )
    for device, count in report.lent.items():
        lines.append(
            f"{count} layers run on records of {device}, which has the same chip; "
            "tune them with autoq tune"
        )
    if report.predicted:
        lines.append(
            f"{len(report.predicted)} layers run on a kernel that records of other layers predict "
            "to be fast; tune them with autoq tune"
        )
    lines.append(_floats(report.floats))
    for name, setting in report.precisions.items():
        lines.append(f"{name} computes floats through integers: {setting}")
    lines += [f"{name}: {choice}" for name, choice in report.zeros.items()]
    for name, reason in report.unquantised.items():
        lines.append(f"{name} runs in float32 although its tensors are quantised: {reason}")
    if report.packed or report.widened:
        lines.append(_four_bits(report))
    if report.skipped:
        lines.append(f"records not used: {counts(report.skipped)}")
    lines.append(f"wrote {report.path}")
    return "\n".join(lines)


def _floats(kernels: FloatKernels) -> str:
    """How many kernels compute with floats, and where the model leaves integers for them."""
    text = f"{kernels.floats} of {kernels.total} kernels compute with floats"
    if not kernels.leaves:
        return text
    more = f" and {len(kernels.leaves) - _NAMED} more" if len(kernels.leaves) > _NAMED else ""
    return f"{text}; the model leaves integers at {', '.join(kernels.leaves[:_NAMED])}{more}"


def _four_bits(report: CompileReport) -> str:
    """How the layers over 4-bit values hold them."""
    packed, widened = report.packed, report.widened
    text = f"{len(packed)} of {len(packed) + len(widened)} layers hold 4-bit values two a byte"
    if not widened:
        return text
    named = ", ".join(widened[:3]) + (", ..." if len(widened) > 3 else "")
    target = report.host.target
    where = f"where the kernels for {target.kind} {target.arch} take bytes"
    return f"{text}; {len(widened)} hold the same numbers one a byte, {where}: {named}"


def _source(source: str) -> str:
    names = {"default": "untuned default", "fixed": "nothing to tune"}
    return names.get(source, source)
