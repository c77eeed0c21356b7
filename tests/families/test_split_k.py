"""A family whose templates build programs: stages, workspaces and semaphores between them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gpu_kernels import compiled, end_if_compile_only, gpu_host, gpu_target
from ptx.kernels import assert_right_emulated
from split_k.config import SplitConfig
from split_k.cpu import TEMPLATE as CPU_TEMPLATE
from split_k.cpu import program_of
from split_k.cuda import TEMPLATE as CUDA_TEMPLATE
from split_k.operator import LongProduct
from with_nvcc import needs_nvcc

import autoq
from autoq.devices import cpu_name
from autoq.graph.fused import WORKLOAD as ANY_WORKLOAD
from autoq.graph.ir import Graph, Operation, Tensor
from autoq.kernel.kernel_store import KernelStore
from autoq.measure.bench import CpuBench
from autoq.measure.check import complaints
from autoq.measure.cuda_bench import CudaBench
from autoq.measure.job import Job, Timing
from autoq.measure.stopwatch import timings
from autoq.measure.worker import Prepare, Run, Worker, WorkerSettings
from autoq.records import Device as RecordedDevice
from autoq.records import Record, read_records
from autoq.report.tables import profile_table
from autoq.runtime.cuda.driver import Device
from autoq.session import Session
from autoq.templates.target import host_cpu, parse_target

FAMILY = "split_k"
# LLVM unrolls a sum of 64 steps over all outputs, which takes it a second a kernel.
WORKLOAD = LongProduct(m=5, n=24, k=32)
CONFIGS = [
    SplitConfig(splits, ending) for splits in (1, 4) for ending in ("stage", "sum", "semaphore")
]


def case(seed: int, workload: LongProduct = WORKLOAD) -> tuple:
    """Activations, constants and the output of a random case."""
    activations, constants = workload.random_case(np.random.default_rng(seed))
    return activations, constants, workload.reference(activations, constants)


@pytest.mark.usefixtures("in_this_process")
def test_it_is_tuned_recorded_and_run(tmp_path: Path) -> None:
    records = tmp_path / "long.jsonl"
    summary = autoq.tune(
        [WORKLOAD],
        trials=6,
        output=records,
        target="cpu",
        registry=FAMILY,
        layouts=("NHWC",),
        jobs=1,
    )
    assert not summary.failures
    tried = [json.dumps(record.config) for record in read_records(records).records]
    assert {knobs for knobs in tried if "semaphore" in knobs or "sum" in knobs}
    (a,), constants, (expected,) = case(3)
    product = autoq.operator(
        WORKLOAD, target="cpu", constants=constants, tuning_records=[records], registry=FAMILY
    )
    assert product.source == str(records)
    for _ in range(2):
        np.testing.assert_allclose(product(a), expected, rtol=1e-5, atol=1e-4)


def recorded(path: Path, config: SplitConfig) -> Path:
    """A file that names one configuration for this CPU."""
    record = Record(
        WORKLOAD, CPU_TEMPLATE.name, CPU_TEMPLATE.version,
        {"splits": config.splits, "ending": config.ending},
        RecordedDevice(cpu_name(), host_cpu().arch), "2026-11-20T12:00:00Z", seconds=1e-6,
    )  # fmt: skip
    path.write_text(record.to_line() + "\n")
    return path


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_every_configuration_is_right_over_poison_again_and_again(config: SplitConfig) -> None:
    activations, constants, expected = case(5)
    target = host_cpu()
    kernel = KernelStore(None).kernel(CPU_TEMPLATE, WORKLOAD, config, target)
    assert len(kernel.calls) == (1 if config.ending == "semaphore" else 2)
    bench = CpuBench(activations, expected)
    candidate = bench.load(kernel, CPU_TEMPLATE.constants(WORKLOAD, config, constants))
    for poison in (0x5A, 0xC3):
        found = candidate.run_over(poison, launches=2)
        assert complaints(found, expected, WORKLOAD, target) is None
        assert candidate.left_dirty() is None


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_it_runs_in_a_model_whose_arena_holds_its_workspaces(
    tmp_path: Path, config: SplitConfig
) -> None:
    """Twice the product with the same records; what is left over in the arena is no zero."""
    _, constants, _ = case(7)
    tensors = [Tensor("a", (5, 32), "int8"), Tensor("b", (5, 32), "int8")]
    tensors += [Tensor(name, (5, 24), "float32") for name in ("y", "z", "sum")]
    attributes = {"workload": WORKLOAD, "constants": constants}
    nodes = [
        Operation(ANY_WORKLOAD, "first", ("a",), "y", attributes, ("first",)),
        Operation(ANY_WORKLOAD, "second", ("b",), "z", attributes, ("second",)),
        Operation("Add", "add", ("y", "z"), "sum", {}, ("add",)),
    ]
    model = Graph("net", {one.name: one for one in tensors}, nodes, ("a", "b"), ("sum",))
    path = tmp_path / "net.tar"
    report = autoq.compile(
        model, target="cpu", output=path, registry=FAMILY,
        tuning_records=recorded(tmp_path / "long.jsonl", config), use_shipped_records=False,
    )  # fmt: skip
    products = report.calls[:2]
    assert [step.source for step in products] == [str(tmp_path / "long.jsonl")] * 2
    own = [slot for step in products for slot in step.workspaces]
    assert len(own) == 2 * (2 if config.ending == "semaphore" else 1)
    assert all(slot.space == "arena" for slot in own)
    session = Session(path)
    for seed in (1, 2):
        feeds = {name: case(seed + at)[0][0] for at, name in enumerate("ab")}
        parts = [WORKLOAD.reference([feed], constants)[0] for feed in feeds.values()]
        (found,) = session.run(None, feeds)
        np.testing.assert_allclose(found, parts[0] + parts[1], rtol=1e-5, atol=1e-4)
    layers = session.profile(2)
    count = 1 if config.ending == "semaphore" else 2
    assert [len(layer.stages) for layer in layers] == [count * (count > 1)] * 2 + [0]
    assert all(0 < sum(layer.stages) <= 2 * layer.seconds for layer in layers if layer.stages)
    lines = profile_table(layers).splitlines()
    names = [re.match(r" *(.*?)(  |$)", line)[1] for line in lines[2:]]
    below = ["stage 1 of 2", "stage 2 of 2"] if count > 1 else []
    assert names == ["first", *below, "second", *below, "add", "total"]
    assert all(line.startswith("  stage") == ("stage" in line) for line in lines)


def test_a_semaphore_that_is_not_left_at_zero_is_no_candidate(tmp_path: Path) -> None:
    """Its outputs are right over every poison as long as nobody runs it again."""
    config, target = SplitConfig(2, "semaphore"), host_cpu()
    worker = Worker(WorkerSettings(FAMILY, target, 0, 1, 1, tmp_path))
    worker.handle(Prepare(WORKLOAD))
    found = []
    for left in (0, 1):
        forgetful = replace(CPU_TEMPLATE, build=lambda w, c, t, left=left: program_of(w, c, left))
        kernel = KernelStore(None).kernel(forgetful, WORKLOAD, config, target)
        request = Run(Job(WORKLOAD, CPU_TEMPLATE.name, config), kernel, Timing(repeat=1, number=1))
        found.append(worker.handle(request).measurement)
    right, wrong = found
    assert right.failure is None and right.seconds
    assert wrong.failure == "correctness"
    assert wrong.message == "workspace 'arrived': 4 bytes are not left at zero"


@needs_nvcc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_it_compiles_for_gpus(config: SplitConfig, arch: str) -> None:
    target = parse_target(f"cuda:{arch}")
    kernel = KernelStore(None).kernel(CUDA_TEMPLATE, WORKLOAD, config, target)
    stages = 1 if config.ending == "semaphore" else 2
    assert len(kernel.modules) == len(kernel.launches) == stages
    assert [launch.module for launch in kernel.launches] == list(range(stages))
    assert kernel.spill_bytes == 0


@needs_nvcc
@pytest.mark.parametrize("config", CONFIGS[3:], ids=str)
def test_it_is_right_on_the_emulator(config: SplitConfig) -> None:
    """Programs of several launches, atomic additions and semaphores that stay zero."""
    assert_right_emulated(CUDA_TEMPLATE, WORKLOAD, config, parse_target("cuda:sm_80"), ["late"])


@pytest.mark.gpu
@pytest.mark.parametrize("workload", [WORKLOAD, LongProduct(33, 40, 512)], ids=str)
def test_every_configuration_is_right_on_a_gpu(workload: LongProduct) -> None:
    """Alone, overlapping itself, and timed with its buffers rotated."""
    target = gpu_target()
    kernels = compiled(CUDA_TEMPLATE, workload, [(config, target) for config in CONFIGS], target)
    activations, constants, expected = case(5, workload)
    bench = CudaBench(Device(), activations, expected)
    for config, kernel in zip(CONFIGS, kernels, strict=True):
        candidate = bench.load(kernel, CUDA_TEMPLATE.constants(workload, config, constants))
        for poison in (0x5A, 0xC3):
            for launches in (1, 5):
                found = candidate.run_over(poison, launches)
                assert complaints(found, expected, workload, target) is None, config
                assert candidate.left_dirty() is None
        for timing in (Timing(3, number=4), Timing(3, number=4, cold=True, overlapped=True)):
            assert min(timings(candidate.stopwatch(timing), timing)) > 0
        assert complaints(candidate.run_over(0x5A), expected, workload, target) is None
        assert candidate.left_dirty() is None


@pytest.mark.gpu
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_it_runs_in_a_graph_on_a_gpu(tmp_path: Path, config: SplitConfig) -> None:
    """As a function alone and in a captured model, whose replays share one arena."""
    host = gpu_host()
    end_if_compile_only()
    record = Record(
        WORKLOAD, CUDA_TEMPLATE.name, CUDA_TEMPLATE.version,
        {"splits": config.splits, "ending": config.ending},
        RecordedDevice(str(host.device), host.target.arch), "2026-11-20T12:00:00Z", seconds=1e-6,
    )  # fmt: skip
    records = tmp_path / "long.jsonl"
    records.write_text(record.to_line() + "\n")
    _, constants, _ = case(7)
    product = autoq.operator(
        WORKLOAD, target="cuda", constants=constants, tuning_records=[records], registry=FAMILY
    )
    m, n, k = WORKLOAD.m, WORKLOAD.n, WORKLOAD.k
    tensors = [Tensor("a", (m, k), "int8"), *(Tensor(name, (m, n), "float32") for name in "yz")]
    attributes = {"workload": WORKLOAD, "constants": constants}
    nodes = [
        Operation(ANY_WORKLOAD, "first", ("a",), "y", attributes, ("first",)),
        Operation(ANY_WORKLOAD, "second", ("a",), "z", attributes, ("second",)),
    ]
    model = Graph("net", {one.name: one for one in tensors}, nodes, ("a",), ("y", "z"))
    path = tmp_path / "net.tar"
    report = autoq.compile(
        model, target="cuda", output=path, registry=FAMILY, tuning_records=[records],
        use_shipped_records=False,
    )  # fmt: skip
    assert {step.source for step in report.calls} == {str(records)} == {product.source}
    session = Session(path)
    for seed in (1, 2, 3):
        (a,), _, _ = case(seed)
        (expected,) = WORKLOAD.reference([a], constants)
        for found in (product(a), *session.run(None, {"a": a})):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
    layers = session.profile(2)
    assert len(layers) == 2 and session.run_seconds(3) > 0
    for layer in layers:
        assert sum(layer.stages) == pytest.approx(layer.seconds if layer.stages else 0)
