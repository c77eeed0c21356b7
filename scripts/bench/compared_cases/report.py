"""What benchmarks of single layers report: a row of a case, the table, the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autoq.compilation.selection import DEFAULT
from autoq.libraries.ranking import PeerTime
from autoq.measure.job import Job, Measurement
from autoq.report.text import share, table
from autoq.search.knobs import plain_config
from autoq.templates.target import Target
from autoq.templates.workload import Workload
from autoq.templates.workload_key import to_dict
from autoq.tuning.task import roofline_seconds

UNTUNED = "untuned default"


def fastest(ours: Sequence[tuple[Job, str, Measurement]]) -> tuple[Job, str, float] | None:
    """The fastest right candidate with its source and seconds."""
    right = [(job, source, m.seconds) for job, source, m in ours if m.seconds is not None]
    return min(right, key=lambda item: item[2], default=None)


def case_row(
    name: str,
    workload: Workload,
    target: Target,
    ours: Sequence[tuple[Job, str, Measurement]],
    overlapped: Measurement | None,
    theirs: Mapping[str, PeerTime | str | None],
) -> dict[str, Any]:
    """A case of the JSON results; times are microseconds.

    name: of the case; ours: candidates with their source and measurement; overlapped: the fastest
    of them in launches that overlap; theirs: a time, the reason why there is none, or None for a
    peer that does not compute such layers.
    """
    best = fastest(ours)
    row: dict[str, Any] = {
        "case": name,
        "autoq_us": None,
        "autoq_overlapped_us": None,
        "config": None,
        "source": None,
        "peers": {},
        "best_peer": None,
        "speedup": None,
        "roofline_us": roofline_seconds(workload, target) * 1e6,
        "roofline_share": None,
        "failures": [
            f"{job.template} {job.config}: {m.failure}: {m.message}"
            for job, _, m in ours
            if m.seconds is None
        ],
        "peer_details": {},
        "workload": to_dict(workload),
    }
    for name, result in theirs.items():
        if isinstance(result, PeerTime):
            row["peers"][name] = result.seconds * 1e6
            row["peer_details"][name] = _details(result)
        elif result is not None:
            row["peer_details"][name] = {"failure": result}
    if row["peers"]:
        row["best_peer"] = min(row["peers"], key=row["peers"].get)
    if overlapped is not None:
        if overlapped.seconds is None:
            row["failures"].append(f"overlapped: {overlapped.failure}: {overlapped.message}")
        else:
            row["autoq_overlapped_us"] = overlapped.seconds * 1e6
    if best is not None:
        job, source, seconds = best
        row["autoq_us"] = seconds * 1e6
        row["config"] = {"template": job.template, **plain_config(job.config)}
        row["source"] = UNTUNED if source == DEFAULT else source
        row["roofline_share"] = row["roofline_us"] / row["autoq_us"]
        if row["best_peer"]:
            row["speedup"] = row["peers"][row["best_peer"]] / row["autoq_us"]
    return row


def _details(result: PeerTime) -> dict[str, Any]:
    details = {"what": result.what, "ways_timed": result.tried, "max_error": result.max_error}
    if result.others:
        details["other_forms_us"] = {name: s * 1e6 for name, s in result.others.items()}
    return details


def verdict(row: Mapping[str, Any]) -> str:
    """A case in one line, and its failures in one line each."""
    text = f"{row['case']}: autoq {_us(row['autoq_us'])} us"
    if row["best_peer"]:
        text += f", {row['best_peer']} {_us(row['peers'][row['best_peer']])} us"
    details = row["peer_details"].items()
    failed = [f"  {name}: {d['failure']}" for name, d in details if "failure" in d]
    return "\n".join([text, *(f"  autoq: {line}" for line in row["failures"]), *failed])


def cases_table(rows: Sequence[Mapping[str, Any]], peers: Sequence[str]) -> str:
    """All cases in microseconds, then how many of them autoq wins."""
    header = ("case", "autoq", "overlapped", *peers, "best peer/autoq", "roofline",
              "configuration from")  # fmt: skip
    cells = [
        (row["case"], _us(row["autoq_us"]), _us(row["autoq_overlapped_us"]),
         *(_us(row["peers"].get(name)) for name in peers),
         "-" if row["speedup"] is None else f"{row['speedup']:.2f}", share(row["roofline_share"]),
         row["source"] or "-")
        for row in rows
    ]  # fmt: skip
    compared = [row["speedup"] for row in rows if row["speedup"] is not None]
    wins = sum(speedup >= 1 for speedup in compared)
    ending = f"at least as fast as every peer in {wins} of {len(compared)} compared cases"
    return "\n".join([table(header, cells, ("case", "configuration from")), "", ending])


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
