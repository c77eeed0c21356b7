"""The benchmark of products on the CPU, beside a peer that needs no device."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bench_gemm
import pytest
from compared_cases.candidates import candidates
from compared_cases.knob_candidates import knob_candidates, knob_times
from dense_products import plot as gemm_plot
from dense_products.cases import Case, paper_cases
from dense_products.quoted_peers import DEVICE, QUOTED, quoted
from peers import worker

from autoq.devices import Host
from autoq.measure.job import Measurement
from autoq.records.database import SHIPPED, Database
from autoq.records.siblings import siblings
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import parse_target

CASES = [Case("first", Gemm(8, 16, 32)), Case("second", Gemm(8, 16, 64))]

RESULTS = Path(bench_gemm.__file__).parents[1] / "results"
HOST = Host(parse_target("cuda:sm_90a"), None)


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    monkeypatch.setattr(bench_gemm, "all_cases", lambda: CASES)
    monkeypatch.setattr(bench_gemm, "_MOST_TRIALS", 4)
    monkeypatch.setattr(bench_gemm, "PEERS", {Gemm: ("fake", "fake_peers:ProductPeer")})

    def run(*arguments: str) -> None:
        common = [
            "bench_gemm.py", "--target", "cpu", "--output", str(tmp_path / "gemm.json"),
            "--records", str(tmp_path / "gemm.jsonl"),
        ]  # fmt: skip
        monkeypatch.setattr(sys, "argv", [*common, *arguments])
        bench_gemm.main()

    return run


@pytest.mark.usefixtures("in_this_process")
def test_rows_of_later_runs_replace_their_own(main: Callable[..., None], tmp_path: Path) -> None:
    main("--commit", "a", "--time-budget", "120")
    assert (tmp_path / "gemm.jsonl").read_text().count('"gemm"') >= 2
    main("--commit", "b", "--cases", "second")
    result = json.loads((tmp_path / "gemm.json").read_text())
    assert [(row["case"], row["commit"]) for row in result["cases"]] == [
        ("first", "a"), ("second", "b")
    ]  # fmt: skip
    for row, channels in zip(result["cases"], (32, 64), strict=True):
        assert row["peers"]["fake"] == pytest.approx(channels)
        assert row["speedup"] == pytest.approx(channels / row["autoq_us"])
        assert row["tops"] == pytest.approx(2 * 8 * 16 * channels / row["autoq_us"] * 1e-6)


def test_a_peer_that_is_not_there_is_said_to_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_gemm, "PEERS", {Gemm: ("fake", "fake_peers:AbsentPeer")})
    peers, versions = bench_gemm.start_peers(CASES)
    assert not peers and "libfake was not found" in versions["fake"]
    assert f"fake: {versions['fake']}" in capsys.readouterr().out


def test_peers_may_import_what_autoq_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    worker.serve(("fake_peers:ProductPeer", {}))
    assert sys.modules.get("torch", True) is not None


def test_results_of_another_device_are_not_mixed(main: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "gemm.json").write_text('{"device": "another", "cases": []}')
    with pytest.raises(SystemExit, match="is of another"):
        main()


def test_knobs_are_varied_around_the_default() -> None:
    product = FloatGemm(16, 8192, 8192)
    found = knob_candidates(product, HOST, {"split_k": [1, 2], "row_blocks": [1, 2]})
    configs = [candidate.job.config for candidate in found]
    assert {(c.split_k, c.row_blocks) for c in configs} == {(1, 1), (1, 2), (2, 1), (2, 2)}
    assert len({c.block_m for c in configs}) == 1 < len({c.stages for c in configs})
    with pytest.raises(SystemExit, match="no knob 'split'"):
        knob_candidates(product, HOST, {"split": [1]})


def test_knobs_are_written_as_records_have_them() -> None:
    found = knob_candidates(Gemm(1024, 1024, 1024), HOST, {})
    measured = [(c.job, c.source, Measurement(seconds=2e-6)) for c in found]
    (row,) = json.loads(json.dumps(knob_times(measured)))
    assert row["us"] == pytest.approx(2.0)
    assert row["config"]["team"]["consumers"] >= 1


@pytest.mark.parametrize("device", siblings("NVIDIA GH200 480GB"))
def test_records_of_siblings_are_timed_as_well(device: str) -> None:
    host, shipped = Host(HOST.target, device), Database.load([], shipped=True)
    for top in (1, 2):
        found = candidates(Gemm(8192, 8192, 8192), host, shipped, top)
        folders = Counter(one.source for one in found)
        assert folders == {f"{SHIPPED}{name}/gemm.jsonl": top for name in ("h100", "h200")}
        assert len({one.job for one in found}) == 2 * top


def test_what_is_quoted_is_of_cases_and_dated() -> None:
    names = {case.name for case in bench_gemm.all_cases()}
    assert set(QUOTED) <= names
    wide = "f16 x s8 3456x4096x2048"
    assert {quote["peer"]: quote["us"] for quote in quoted(wide, DEVICE)} == {
        "CUTLASS sm90 mixed": 92.0, "Triton w8a16": 155.6,
    }  # fmt: skip
    for name in QUOTED:
        assert all(quote["date"] and quote["source"] for quote in quoted(name, DEVICE))
    assert quoted(wide, "another") == quoted("another", DEVICE) == []


def test_results_hold_what_is_quoted() -> None:
    result = json.loads((RESULTS / "gemm_h200.json").read_text())
    for row in result["cases"]:
        assert row["quoted"] == quoted(row["case"], result["device"]), row["case"]


def test_unknown_cases_are_refused(main: Callable[..., None]) -> None:
    with pytest.raises(SystemExit, match=r"third.*names none of first, second"):
        main("--cases", "third")


def test_the_plot_has_eight_mixed_products_and_two_native_ones() -> None:
    workloads = [case.workload for case in paper_cases()]
    assert len(set(workloads)) == len(workloads) == 10
    assert sum(not workload.quantised for workload in workloads) == 2
    for workload in workloads:
        assert isinstance(workload, FloatGemm)
        assert workload.operations == 2 * 3456 * 4096 * 2048
        assert workload.y_shape == (3456, 4096) or workload.weight_left


def plotted() -> dict[str, Any]:
    """A result of the plot's cases whose library is twice as fast as autoq."""
    rows = [
        {"case": case.name, "tops": 500.0, "autoq_us": 20.0, "peers": {"cublaslt_float": 10.0},
         "date": "2026-01-01", "commit": "0123456789"}
        for case in paper_cases()
    ]  # fmt: skip
    return {"device": "a GPU", "cases": rows}


def test_the_plot_shows_what_the_benchmark_wrote(tmp_path: Path) -> None:
    result = plotted()
    shown = gemm_plot.panels(result)
    assert {row["case"] for rows in shown.values() for row in rows} == {
        row["case"] for row in result["cases"]
    }
    assert gemm_plot.library_tops(result["cases"][0]) == 1000.0
    gemm_plot.draw(result, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_a_plot_without_a_case_is_refused() -> None:
    result = plotted()
    result["cases"][3]["tops"] = None
    with pytest.raises(SystemExit, match="holds no time of f16 x u8 3456x4096x2048"):
        gemm_plot.draw(result, Path("nowhere.png"))
