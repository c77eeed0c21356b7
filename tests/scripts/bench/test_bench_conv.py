"""The whole benchmark on the CPU, beside peers that need no device."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import bench_conv
import pytest

from autoq.templates.operators.conv2d import Conv2d

SMALL = [Conv2d(2, 6, 6, 16, k, 3, 3, padding=(1, 1, 1, 1)) for k in (16, 32)]
GROUPED = [Conv2d(2, 6, 6, 16, 16, 3, 3, padding=(1, 1, 1, 1), groups=16)]
FAKES = {
    "fake": "fake_peers:FakePeer",
    "declining": "fake_peers:DecliningPeer",
    "absent": "fake_peers:AbsentPeer",
}


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    small = {"resnet50": lambda n: [w for w in SMALL if w.n == n], "grouped": lambda n: GROUPED}
    monkeypatch.setattr(bench_conv, "LAYERS", small)
    monkeypatch.setattr(bench_conv, "PEERS", FAKES)
    monkeypatch.setattr(bench_conv, "LIBRARIES", list(FAKES))
    monkeypatch.setattr(bench_conv, "_PROCESSES", {"fake": 2})

    def run(*arguments: str) -> None:
        common = ["--target", "cpu", "--batches", "2", "--cache", str(tmp_path / "cache")]
        monkeypatch.setattr(sys, "argv", ["bench_conv.py", *common, *arguments])
        bench_conv.main()

    return run


def test_kernels_and_references_made_beforehand_serve_the_run(main, tmp_path, capsys) -> None:
    main("--compile-only")
    assert "compiled 2 cases, 0 kernels failed" in capsys.readouterr().out
    made = sorted((tmp_path / "cache").rglob("*.*"))
    output = tmp_path / "results" / "conv.json"
    main("--peers", ",".join(FAKES), "--commit", "abc", "--output", str(output))
    assert sorted((tmp_path / "cache").rglob("*.*")) == made
    result = json.loads(output.read_text())
    assert result["commit"] == "abc" and result["device"]
    assert result["peers"]["fake"] == "1.2"
    assert result["peers"]["absent"].startswith("missing")
    assert [row["case"] for row in result["cases"]] == ["N2 3x3 6x6x16", "N2 3x3 6x6x16->32"]
    for row in result["cases"]:
        assert row["autoq_us"] > 0 and row["source"] == "untuned default"
        assert row["config"]["template"]
        assert row["peers"] == {"fake": pytest.approx(16.0)}
    printed = capsys.readouterr().out
    assert "compared cases" in printed and "N2 3x3 6x6x16->32" in printed


def test_grouped_layers(main, tmp_path) -> None:
    output = tmp_path / "grouped.json"
    main("--layers", "grouped", "--peers", "fake", "--output", str(output))
    (row,) = json.loads(output.read_text())["cases"]
    assert row["case"] == "N2 3x3 6x6x16 g16" and row["autoq_us"] > 0


def test_mistakes_are_named(main) -> None:
    with pytest.raises(SystemExit, match="no case"):
        main("--cases", "5x5")
    with pytest.raises(SystemExit, match="'cutlass' is unknown"):
        main("--peers", "cutlass")
