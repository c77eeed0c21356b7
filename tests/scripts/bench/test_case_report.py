"""What bench_conv reports of its measurements."""

from __future__ import annotations

from compared_cases.report import case_row, cases_table, fastest, verdict
from convolutions.names import case_name
from resnet50_cases import convolutions

from autoq.compilation.selection import DEFAULT
from autoq.libraries.ranking import PeerTime
from autoq.measure.job import Job, Measurement
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.registry import matching
from autoq.templates.target import parse_target
from autoq.templates.workload_key import from_dict

TARGET = parse_target("cuda:sm_90a")
CASES = [case for case in convolutions(8) if isinstance(case, Conv2d)]


def _job(workload: Conv2d) -> Job:
    template = matching(workload, TARGET)[0]
    return Job(workload, template.name, template.default(workload, TARGET))


def test_cases_are_named_apart() -> None:
    names = [case_name(case) for case in CASES]
    assert len(set(names)) == len(names)
    expected = {
        "N8 stem 7x7 s2 224x224x3->64",
        "N8 3x3 56x56x64",
        "N8 1x1 56x56x64->256",
        "N8 1x1 56x56x64->256 +residual",
        "N8 3x3 56x56x128 s2",
    }
    assert expected <= set(names)


def test_row_takes_the_fastest_right_kernel_and_the_fastest_peer() -> None:
    workload = CASES[2]
    job = _job(workload)
    ours = [
        (job, "a.jsonl", Measurement(seconds=5e-6)),
        (job, "b.jsonl", Measurement(seconds=4e-6)),
        (job, "c.jsonl", Measurement(failure="correctness", message="7 elements wrong")),
    ]
    theirs = {
        "slow": PeerTime(9e-6, "plan 1", 3, 0.0, {"other form": 2e-5}),
        "fast": PeerTime(6e-6, "plan 2", 2, 1.0),
        "broken": "no plan fits",
        "inapplicable": None,
    }
    assert fastest(ours) == (job, "b.jsonl", 4e-6)
    row = case_row(case_name(workload), workload, TARGET, ours, Measurement(seconds=3e-6), theirs)
    assert (row["autoq_us"], row["autoq_overlapped_us"], row["source"]) == (4.0, 3.0, "b.jsonl")
    assert row["config"]["template"] == job.template
    assert row["config"].keys() == {"template", *vars(job.config)}
    assert row["peers"] == {"slow": 9.0, "fast": 6.0}
    assert (row["best_peer"], row["speedup"]) == ("fast", 1.5)
    assert row["roofline_share"] == row["roofline_us"] / 4.0
    assert row["peer_details"]["slow"]["other_forms_us"] == {"other form": 20.0}
    assert row["peer_details"]["broken"] == {"failure": "no plan fits"}
    assert "inapplicable" not in row["peer_details"]
    assert from_dict(row["workload"]) == workload
    assert "7 elements wrong" in verdict(row) and "no plan fits" in verdict(row)


def test_wrong_kernel_has_no_time_and_an_untuned_one_says_so() -> None:
    workload = CASES[2]
    wrong = [(_job(workload), DEFAULT, Measurement(failure="correctness", message="all wrong"))]
    row = case_row(
        case_name(workload), workload, TARGET, wrong, None, {"peer": PeerTime(6e-6, "plan", 1, 0.0)}
    )
    assert (row["autoq_us"], row["speedup"], row["config"]) == (None, None, None)
    right = [(_job(workload), DEFAULT, Measurement(seconds=5e-6))]
    damaged = Measurement(failure="correctness", message="wrote over its inputs")
    row = case_row(case_name(workload), workload, TARGET, right, damaged, {})
    assert (row["source"], row["autoq_overlapped_us"]) == ("untuned default", None)
    assert row["failures"] == ["overlapped: correctness: wrote over its inputs"]


def test_table_counts_only_compared_cases() -> None:
    workload = CASES[2]
    ours = [(_job(workload), "a.jsonl", Measurement(seconds=5e-6))]
    rows = [
        case_row(
            case_name(workload),
            workload,
            TARGET,
            ours,
            None,
            {"peer": PeerTime(seconds, "plan", 1, 0.0)},
        )
        for seconds in (4e-6, 5e-6)
    ]
    rows.append(
        case_row(case_name(workload), workload, TARGET, ours, None, {"peer": "no plan fits"})
    )
    text = cases_table(rows, ["peer"])
    assert text.splitlines()[-1].startswith("at least as fast as every peer in 1 of 2 compared")
    assert "0.80" in text and "1.00" in text
