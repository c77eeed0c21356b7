"""Speeds of residual-compensated products: what is compiled, checked, timed and shown."""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path

import bench_residual
import numpy as np
import pytest
from residual import kernels, paper, speed, stages
from residual import plots as residual_plots
from residual import section as residual_section
from residual.distributions import masked_pair, masked_threshold
from residual.kernels import ALLOWED, Block, summed
from residual.numpy_peer import threads
from residual.rows import Row
from residual.speed import place
from residual.variants import Variants

from autoq.devices import resolve
from autoq.errors import BuildError
from autoq.measure.compile_worker import Built
from autoq.measure.job import Job, Timing
from autoq.runtime.kernel import CpuKernel
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.registry import matching
from autoq.templates.target import parse_target

KERNEL = CpuKernel((b"",), (), ())


@pytest.mark.parametrize("form", stages.FORMS)
def test_every_stage_on_a_gpu_has_a_kind(form: str) -> None:
    target = parse_target("cuda:sm_90a")
    workload = ResidualGemm(128, 128, 128, correction=stages.FORMS[form])
    template = matching(workload, target)[0]
    program = template.program(workload, template.default(workload, target), target)
    kinds = stages.kinds_of(program.stages)
    assert kinds.count("product") == (1 if form == "direct" else 3)
    assert ("reduce" in kinds) == (form == "sparse") and kinds[0] == "quantise"


def test_a_block_finds_what_is_wrong() -> None:
    a, b = masked_pair(96, 0.05)
    block = Block.drawn(a, b, 0.75)
    y = Variants(a, b, 8).sparse(masked_threshold(0.05))
    block.check("sparse", y, block.expected("sparse", 8), ALLOWED)
    y[block.rows[3], block.columns[5]] *= np.float32(1.001)
    with pytest.raises(SystemExit, match="sparse: wrong by"):
        block.check("sparse", y, block.expected("sparse", 8), ALLOWED)
    with pytest.raises(SystemExit, match="full: wrong by"):
        block.check("full", y, block.expected("full", 8), ALLOWED)


def test_a_gpu_that_is_not_here_takes_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoq.devices.device_count", lambda: 0)
    with pytest.raises(SystemExit, match="has no device here"):
        bench_residual.main(["--tables", "speed", "--target", "cuda"])


def speed_rows(target: str, sizes: tuple[int, ...], densities: tuple[float, ...]) -> list[Row]:
    """Rows of which the direct form takes 10 us, full 30, float32 40, sparse 12 and more."""
    rows: list[Row] = []
    for size in sizes:
        for density in densities:
            us = {"direct": 10.0, "full": 30.0, "sparse": 12 + 100 * density, "float32": 40.0,
                  "tf32": 24.2, "cublaslt_compiled": 18.15}  # fmt: skip
            times = {form: [1e-6 * taken] for form, taken in us.items()}
            rows.append({
                "table": "speed", "target": target, "size": size, "density": density,
                "load": 1.0, "threads": 2,
                "device": "a device", "date": "2026-01-01", "commit": "0123456789",
                "times": summed(times, 2 * size**3),
            })  # fmt: skip
    return rows


def test_speeds_stand_beside_the_papers() -> None:
    rows = speed_rows("cpu", (256, 512), paper.CPU_DENSITIES)
    text = residual_section.cpu_speeds({"rows": rows})
    assert "a device, 2026-01-01, commit 0123456, average load 1 to 1." in text
    ours = "| 512 | 2 | 0.1 | 26,843.5 | 8,947.8 | 12,201.6 | 6,710.9 | 0.45 | 1.36 |"
    assert f"{ours} 23.39 | 9.19 | 7.89 |" in text
    assert (
        "| 256 | 2 | 0.01 | 3,355.4 | 1,118.5 | 2,581.1 | 838.9 | 0.77 | 2.31 | - | - | - |" in text
    )


def test_speeds_are_drawn(tmp_path: Path) -> None:
    rows = speed_rows("cuda", (512, 1024), paper.GPU_DENSITIES)
    shares = {"quantise": 0.2, "product": 0.5, "reduce": 0.0, "correct": 0.3}
    rows += [{**rows[0], "table": "stages", "form": "sparse", "share": shares}]
    written = residual_plots.draw_all({"rows": rows}, tmp_path / "fast.json")
    assert [path.name for path in written] == ["fast_speeds.png", "fast_stages.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)


def test_threads_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    assert threads() == 1 and place("cpu") == "cpu, 1 threads," and place("cuda") == "cuda"
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    with pytest.raises(SystemExit, match="autoq would run on 1 threads and numpy on 3"):
        threads()


def test_kernels_are_checked_and_timed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every table of speeds over one small product of the CPU, whose machine code they share."""
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setattr(speed, "timing_of", lambda kind: Timing(repeat=3, number=1))
    monkeypatch.setattr(speed, "CPU_DENSITIES", (0.1,))
    monkeypatch.setattr(speed, "BITS", (8,))
    monkeypatch.setattr(speed, "DISTRIBUTIONS", ("chi-square(1)",))
    output = tmp_path / "residual.json"
    bench_residual.main(
        ["--tables", "speed,real_speed,stages", "--sizes", "48", "--output", str(output),
         "--cache", str(tmp_path / "kernels")]
    )  # fmt: skip
    masked, real, *staged = json.loads(output.read_text())["rows"]
    assert masked["density_a"] == pytest.approx(0.1, abs=0.05) and masked["threads"] == 1
    assert set(masked["times"]) == {"direct", "full", "sparse", "float32"}
    assert set(real["times"]) == {"direct", "full", "sparse_1.0", "sparse_0.8", "sparse_0.5"}
    assert real["densities"]["sparse_1.0"] < real["densities"]["sparse_0.5"]
    for times in (*masked["times"].values(), *real["times"].values()):
        assert 0 < times["us_least"] <= times["us_median"]
        assert times["tops_best"] == pytest.approx(2 * 48**3 / times["us_least"] * 1e-6, rel=1e-4)
    assert [row["form"] for row in staged] == ["direct", "full", "sparse"]
    for row in staged:
        assert sum(row["share"].values()) == pytest.approx(1, rel=1e-4)
        assert (row["share"]["reduce"] > 0) == (row["form"] == "sparse")


def test_kernels_are_compiled_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each workload once, and what the compiler complains of in one line."""
    submitted: list[Job] = []

    class Processes:
        def __init__(self, *arguments: object) -> None:
            pass

        def submit(self, job: Job) -> Future[Built]:
            submitted.append(job)
            found: Future[Built] = Future()
            found.set_result(Built(None, "no memory") if job.workload.m == 7 else Built(KERNEL))
            return found

        def close(self) -> None:
            submitted.append(None)

    monkeypatch.setattr(kernels, "Builder", Processes)
    compiler = kernels.Compiler(resolve("cpu"))
    workloads = [ResidualGemm(m, 8, 8, correction="none") for m in (3, 4, 5, 6)]
    compiler.prepare([*workloads, *workloads])
    assert [job and job.workload for job in submitted] == [*workloads, None]
    assert compiler(workloads[0]).kernel is KERNEL
    compiler.prepare(workloads)
    assert len(submitted) == 5
    with pytest.raises(BuildError, match="7x8x8 of 4 bits direct: no memory"):
        compiler.prepare([ResidualGemm(7, 8, 8, b, c) for b in (4, 8) for c in ("none", "full")])
    assert submitted[-1] is None


def test_the_summary_compares_with_the_paper() -> None:
    results = Path(bench_residual.__file__).parents[1] / "results" / "residual_cpu.json"
    cpu = {"rows": json.loads(results.read_text())["rows"]}
    cpu["rows"] = [row for row in cpu["rows"] if row["table"] == "accuracy"]
    cpu["rows"] += speed_rows("cpu", (4096,), paper.CPU_DENSITIES)
    text = residual_section.summary(cpu, {"rows": speed_rows("cuda", (8192,), paper.GPU_DENSITIES)})
    assert "direct int8 with one scale | 83% | at least 80% |" in text
    assert (
        "(H200, A100): rate over the direct form's, the full's | 0.83, 2.48 | 0.32, 0.92 |" in text
    )
    assert "cuBLASLt's direct int8 with quantisation, cuBLAS in tf32, float32 | 1.50, 2.00," in text
    assert "4096 cubed, density 0.01 (CPUs)" in text and "| 0.77, 2.31 | 0.73, 2.10 |" in text
