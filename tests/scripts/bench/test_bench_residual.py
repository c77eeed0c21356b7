"""The benchmark of residual-compensated products, over sizes small enough for a test."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import bench_residual
import numpy as np
import pytest
from residual import accuracy, factorisation, lenet, paper
from residual import plots as residual_plots
from residual.distributions import DISTRIBUTIONS, masked_pair, masked_threshold, pair
from residual.lenet import CLASSES, HIDDEN, Digits, LeNet
from residual.variants import ONE_SCALE, Variants, relative_error

from autoq.templates.operators.residual_gemm import ResidualGemm


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
