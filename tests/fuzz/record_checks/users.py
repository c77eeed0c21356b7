"""Tuning and compiling with a mangled record file."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from cli.small_models import small_network
from replay_measurer import ReplayMeasurer

from autoq.compilation.compiler import compile
from autoq.devices import Host, resolve
from autoq.errors import AutoqError, RecordError
from autoq.quantization.quantize import quantize
from autoq.records import Device, Lines, Record, read_records
from autoq.search.space import Space
from autoq.templates import registry
from autoq.templates.base import Template
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import matching
from autoq.templates.target import Target
from autoq.tuner import tune
from autoq.tuning.prepare import model_workloads

DEVICE = Device("Replay", "generic")
TARGET = Target("cpu", "generic", int8_rate=1e12, memory_rate=1e11)
WORKLOAD = Gemm(1024, 1024, 1024)


@dataclass(frozen=True)
class ReplayConfig:
    """Knobs of a made-up kernel."""

    a: int
    b: int


def replay_space(workload: Gemm, target: Target) -> Space[ReplayConfig]:
    return Space(ReplayConfig, {"a": tuple(range(6)), "b": tuple(range(6))})


TEMPLATES = (
    Template(
        "replay",
        1,
        lambda workload, target: isinstance(workload, Gemm),
        replay_space,
        lambda workload, target: ReplayConfig(0, 0),
        lambda workload, config, target: None,
        lambda workload, config, constants: (),
        lambda workload, config: (),
    ),
)


@functools.cache
def replayed() -> tuple[Record, ...]:
    """The whole space of the made-up kernel, a sixth of which does not compile."""
    records = []
    for a, b in itertools.product(range(6), range(6)):
        record = Record(
            WORKLOAD, "replay", 1, {"a": a, "b": b}, DEVICE, "2026-11-20T12:00:00Z",
            seconds=1e-3 / (1 + a + b), repeats=9,
        )  # fmt: skip
        if a == 3:
            record = dataclasses.replace(
                record, seconds=None, repeats=0, failure="compile", message='ptxas: "too many"'
            )
        records.append(record)
    return tuple(records)


def tune_in(folder: Path, path: Path, found: Lines | None) -> None:
    """Go on in a copy of the file, with the file itself as records of before."""
    output = folder / "tuned.jsonl"
    output.write_bytes(path.read_bytes())
    try:
        summary = tune(
            [WORKLOAD],
            trials=12,
            output=output,
            target=Host(TARGET, DEVICE.name),
            tuning_records=[path],
            registry=f"{__name__}:TEMPLATES",
            measurer=ReplayMeasurer(replayed(), {"replay": replay_space}, TARGET),
            tuner="random",
        )
    except AutoqError as error:
        assert found is None and "\n" not in str(error), str(error)
        assert output.read_bytes() == path.read_bytes()
        output.unlink()
        return
    assert found is not None
    after = read_records(output)
    assert after.records[: len(found.records)] == found.records and not after.torn
    assert len(after.records) - len(found.records) >= summary.measured
    assert after.rejected == found.rejected
    output.unlink()


@functools.cache
def _model() -> bytes:
    """A small int8 network."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "float.onnx")
        onnx.save(small_network(), str(path))
        quantize(path, None, path.with_name("int8.onnx"))
        return path.with_name("int8.onnx").read_bytes()


@functools.cache
def layers() -> tuple[Record, ...]:
    """Records of a few candidates of the network's layers on this CPU."""
    host, rng = resolve("cpu"), np.random.default_rng(0)
    device = Device(str(host.device), host.target.arch)
    records = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        path.write_bytes(_model())
        workloads = [
            model.workload for model in model_workloads(path, host.target, registry.TEMPLATES, None)
        ]
    for workload in workloads:
        for template in matching(workload, host.target):
            if not template.tunable:
                continue
            space = template.space(workload, host.target)
            records += [
                Record(workload, template.name, template.version, space.to_dict(config), device,
                       "2026-11-20T12:00:00Z", seconds=float(rng.uniform(1e-6, 1e-4)))
                for config in space.sample(rng, 3)
            ]  # fmt: skip
    return tuple(records)


def compile_with(folder: Path, path: Path, found: Lines | None) -> None:
    """The network compiles with the file's records, or the file is refused."""
    model = folder / "model.onnx"
    model.write_bytes(_model())
    output = folder / "model.tar"
    try:
        report = compile(
            model, target="cpu", output=output, tuning_records=[path], jobs=1,
            use_shipped_records=False, cache_dir=Path(tempfile.gettempdir()) / "kernels",
        )  # fmt: skip
    except RecordError as error:
        assert found is None and "\n" not in str(error), str(error)
        assert not output.exists()
        return
    assert found is not None and output.exists()
    for reason, count in found.skipped.items():
        assert report.skipped[reason] == count
    for call in report.calls:
        assert call.source in (str(path), "default", "fixed"), call.source
