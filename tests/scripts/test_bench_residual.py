"""The benchmark of residual-compensated products, over sizes small enough for a test."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import bench_residual
import numpy as np
import pytest
import residual_plots
import residual_section
from residual import accuracy, factorisation, lenet, paper, speed, stages
from residual.distributions import DISTRIBUTIONS, masked_pair, masked_threshold, pair
from residual.kernels import ALLOWED, Block, summed
from residual.lenet import CLASSES, HIDDEN, Digits, LeNet
from residual.numpy_peer import threads
from residual.rows import Row
from residual.speed import place
from residual.variants import ONE_SCALE, Variants, integer_product, relative_error

from autoq.measure.job import Timing
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.registry import matching
from autoq.templates.target import parse_target


def constants(threshold: float) -> dict[str, np.ndarray]:
    return {"threshold": np.array([threshold], np.float32), "crossover": np.ones(1, np.float32)}


@pytest.mark.parametrize("bits", [4, 8])
def test_forms_are_the_operators(bits: int) -> None:
    a, b = pair("chi-square(1)", 48)
    forms = Variants(a, b, bits)
    expected = {
        form: ResidualGemm(48, 48, 48, bits, form).reference((a, b), given)[0]
        for form, given in (("none", {}), ("full", {}), ("sparse", constants(0.7)))
    }
    assert np.array_equal(forms.direct, expected["none"])
    assert np.array_equal(forms.full, expected["full"])
    assert np.array_equal(forms.sparse(0.7), expected["sparse"])
    assert not np.array_equal(expected["sparse"], expected["full"])


def test_integers_are_multiplied_exactly() -> None:
    left, right = np.full((2, 3000), 127, np.int8), np.full((3000, 2), -127, np.int8)
    assert np.array_equal(integer_product(left, right, 8), np.full((2, 2), -3000 * 127**2))


def test_one_scale_and_cutting_off_cost_accuracy() -> None:
    a, b = pair("chi-square(1)", 64)
    exact = a.astype(np.float64) @ b
    errors = [
        relative_error(Variants(a, b, 8, *how).full, exact)
        for how in ((), (ONE_SCALE,), (ONE_SCALE, True))
    ]
    assert 2 * errors[0] < errors[1] < errors[2] / 10


@pytest.mark.parametrize("density", [0.3, 0.1, 0.01])
def test_masks_force_the_density(density: float) -> None:
    a, b = masked_pair(256, density)
    chosen = Variants(a, b, 8).chosen(masked_threshold(density))
    for some, whole in zip(chosen, (a, b), strict=True):
        assert np.array_equal(some != 0, np.abs(whole) > 0.9)
        assert np.count_nonzero(some) / some.size == pytest.approx(density, rel=0.1)


def test_rows_of_later_runs_replace_their_own(tmp_path: Path) -> None:
    output = tmp_path / "residual.json"

    def run(commit: str, *arguments: str) -> list[dict[str, object]]:
        common = ["--sizes", "16", "--output", str(output), "--commit", commit]
        bench_residual.main([*common, *arguments])
        return list(json.loads(output.read_text())["rows"])

    run("a", "--tables", "qr", "--cases", "chi-square(1) 8")
    rows = run("b", "--tables", "accuracy,qr", "--missing")
    names = [(row["table"], row["case"]) for row in rows]
    assert len(names) == len(set(names)) == 4 * len(DISTRIBUTIONS)
    assert [row["table"] for row in rows] == sorted(row["table"] for row in rows)
    assert [row["case"] for row in rows if row["commit"] == "a"] == ["chi-square(1) 8 bits 16"]
    rows = run("c", "--tables", "qr", "--cases", "chi-square(1) 8")
    assert {row["commit"] for row in rows} == {"b", "c"}
    for row in rows:
        if row["table"] == "accuracy":
            assert row["full"] < row["sparse"][2]["error"] < row["direct"]
        else:
            assert row["errors"]["float32"] < row["errors"]["full"] < row["errors"]["direct"]
    assert set(json.loads(output.read_text())["paper"]) >= {"table_3_tops", "table_7"}


def test_exact_products_factorise() -> None:
    matrix = pair("normal(10, 3)", 24)[0].astype(np.float64)
    matrix[:, 3] = 0
    q, r = factorisation.factorised(matrix, np.matmul)
    assert np.allclose(q @ r, matrix, atol=1e-4)
    assert np.allclose(q @ q.T, np.eye(24), atol=1e-4) and np.array_equal(r, np.triu(r))


def test_the_network_computes_what_torch_would() -> None:
    """The convolution shifts, pooling takes its maximum, and layers copy: each is seen alone."""
    conv = np.zeros((9, lenet.CHANNELS), np.float32)
    conv[4, 2] = 1
    first = np.zeros((lenet.POOLED**2 * lenet.CHANNELS, HIDDEN), np.float32)
    first[4 * lenet.CHANNELS + 2, 5] = 2
    second = np.zeros((HIDDEN, CLASSES), np.float32)
    second[5, 7] = 3
    zeros = tuple(np.zeros(width, np.float32) for width in (lenet.CHANNELS, HIDDEN, CLASSES))
    network = LeNet((conv, first, second), zeros)
    images = np.random.default_rng(0).random((5, 8, 8), np.float32)
    logits = network.logits(images, np.matmul)
    assert np.allclose(logits[:, 7], 6 * images[:, 3:5, 3:5].max(axis=(1, 2)))
    assert np.count_nonzero(logits) == 5
    row = lenet.accuracy_row(network, Digits(images, np.array([7, 7, 7, 0, 0])), 4)
    assert set(row["accuracy"].values()) == {0.6}
    assert row["logits_error"]["float32"] == 0 < row["logits_error"]["sparse_0.0"] < 0.01


@pytest.mark.parametrize("package", ["sklearn", "torch"])
def test_missing_packages_are_named(
    package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    digits = Digits(np.zeros((1, 8, 8), np.float32), np.zeros(1, np.int64))
    if package == "torch":
        monkeypatch.setattr(lenet, "load_digits", lambda: (digits, digits))
    with pytest.raises(SystemExit, match=rf"{package}.*pip install 'autoq\[bench\]'"):
        bench_residual.main(["--tables", "lenet", "--output", str(tmp_path / "none.json")])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tables", "accuracy,six"], "found six; choose of accuracy"),
        (["--tables", ","], "found no table"),
        (["--tables", "qr", "--cases", "gamma"], "'gamma'.*part of none of uniform"),
    ],
)
def test_what_is_not_there_is_refused(arguments: list[str], words: str) -> None:
    with pytest.raises(SystemExit, match=words):
        bench_residual.main(arguments)


@pytest.mark.parametrize("sizes", ["0", "", "x"])
def test_sizes_are_positive(sizes: str) -> None:
    with pytest.raises(SystemExit) as refused:
        bench_residual.parse(["--sizes", sizes])
    assert refused.value.code == 2


def test_the_paper_is_quoted_by_our_names() -> None:
    assert paper.gain("exponential(4)", 4, 1.0) == (0.15, 1.46)
    assert paper.gain("uniform(0, 1)", 8, 0.5) is None
    assert paper.factorisation("uniform(0, 1)", 8)["direct"] == 0.819087
    assert paper.factorisation("Poisson(10)", 8) is None
    for name in DISTRIBUTIONS:
        assert paper.gain(name, 8, 0.8)[1] >= 1.24


def test_plots_show_what_the_benchmark_wrote(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    output = tmp_path / "residual.json"
    few = {name: DISTRIBUTIONS[name] for name in ("uniform(0, 1)", "Poisson(10)")}
    for module in (accuracy, residual_plots):
        monkeypatch.setattr(module, "SIZE", 16)
        monkeypatch.setattr(module, "DISTRIBUTIONS", few)
    bench_residual.main(
        ["--tables", "accuracy", "--sizes", "8,16", "--output", str(output), "--commit", "a"]
    )
    result = json.loads(output.read_text())
    written = residual_plots.draw_all(result, output)
    ends = ("thresholds", "sizes", "densities")
    assert [path.name for path in written] == [f"residual_{end}.png" for end in ends]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)
    result["rows"] = [row for row in result["rows"] if row["size"] == 8]
    with pytest.raises(SystemExit, match="no errors at size 16"):
        residual_plots.draw_all(result, output)


@pytest.mark.parametrize("form", stages.FORMS)
def test_every_stage_on_a_gpu_has_a_kind(form: str) -> None:
    target = parse_target("cuda:sm_90a")
    workload = ResidualGemm(128, 128, 128, correction=stages.FORMS[form])
    template = matching(workload, target)[0]
    program = template.program(workload, template.default(workload, target), target)
    kinds = [stages.kind_of(stage) for stage in program.stages]
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
    """Rows of which the direct form takes 10 us, full 30, float32 40 and sparse 12 and more."""
    rows: list[Row] = []
    for size in sizes:
        for density in densities:
            us = {"direct": 10.0, "full": 30.0, "sparse": 12 + 100 * density, "float32": 40.0}
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
