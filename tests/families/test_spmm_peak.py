"""An operator in a folder of its own goes through all that autoq does with one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tvm_ffi
from spmm_peak.operator import SpmmPeak

import autoq
import autoq.tuner
from autoq.errors import InputError
from autoq.graph import evaluate, optimise
from autoq.graph.fused import WORKLOAD as WHOLE
from autoq.graph.ir import Graph, Operation, Tensor
from autoq.measure.job import load_registry
from autoq.records import read_records
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import host_cpu
from autoq.templates.workload_key import from_dict, key

FAMILY = "spmm_peak"
WORKLOAD = SpmmPeak(24, 16, 40, Structure(blocks=96, mean_row=4, longest_row=10))


def case(workload: SpmmPeak, seed: int) -> tuple:
    """A matrix of the workload's class with activations, and the outputs."""
    rng = np.random.default_rng(seed)
    while True:
        activations, constants = workload.random_case(rng)
        if Structure.of(np.diff(constants["pointers"])) == workload.structure:
            return activations, constants, workload.reference(activations, constants)


@pytest.mark.usefixtures("in_this_process")
def test_it_is_tuned_recorded_compiled_and_run(tmp_path: Path) -> None:
    records = tmp_path / "spmm.jsonl"
    summary = autoq.tune(
        [WORKLOAD], trials=4, output=records, target="cpu", registry=FAMILY, layouts=("NHWC",)
    )
    assert not summary.failures
    lines = read_records(records).records
    assert {record.workload for record in lines} == {WORKLOAD}
    assert {record.template for record in lines} == {"spmm_peak_cpu"}
    activations, constants, expected = case(WORKLOAD, 3)
    spmm = autoq.operator(
        WORKLOAD, target="cpu", constants=constants, tuning_records=[records], registry=FAMILY
    )
    assert spmm.source == str(records)
    for given in (activations, [tvm_ffi.from_dlpack(array) for array in activations]):
        found = spmm(*given)
        assert len(found) == 2
        for y, right in zip(found, expected, strict=True):
            np.testing.assert_array_equal(y, right)


def test_records_serve_every_matrix_of_the_class() -> None:
    first, second = (case(WORKLOAD, seed)[1] for seed in (1, 2))
    classes = [
        Structure.of(np.diff(matrix["pointers"]), *matrix.values()) for matrix in (first, second)
    ]
    assert classes[0].digest != classes[1].digest and classes[0] == classes[1]
    named = [replace(WORKLOAD, structure=one) for one in classes]
    assert key(named[0]) == key(named[1]) and "digest" not in key(named[0])
    assert from_dict(json.loads(key(named[0]))) == WORKLOAD
    with pytest.raises(ValueError, match="digest"):
        from_dict({**json.loads(key(WORKLOAD)), "structure": {"digest": "abc"}})


def test_a_matrix_of_another_class_is_refused() -> None:
    constants = case(WORKLOAD, 1)[1]
    pointers = np.zeros_like(constants["pointers"])
    with pytest.raises(InputError, match=r"the matrix is of Structure\(blocks=0"):
        autoq.operator(
            WORKLOAD, target="cpu", registry=FAMILY, constants={**constants, "pointers": pointers}
        )
    long = np.zeros(97, np.int8)
    with pytest.raises(InputError, match=r"int8\[97\]; expected int8 of at most \[96\]"):
        autoq.operator(
            WORKLOAD, target="cpu", registry=FAMILY, constants={**constants, "values": long}
        )
    with pytest.raises(InputError, match=r"spmm_peak .*: no kernel for cpu"):
        autoq.operator(WORKLOAD, target="cpu", constants=constants)


def test_the_family_adds_to_what_autoq_has() -> None:
    templates = load_registry(FAMILY)
    assert {"spmm_peak_cpu", "conv2d_vnni", "gemm_wgmma"} <= templates.keys()


def test_a_model_may_hold_kernels_of_several_outputs(tmp_path: Path) -> None:
    """The second product adds to the first's sums; of both the peaks are wanted."""
    (b, addend), constants, _ = case(WORKLOAD, 3)
    sums, peaks = (24, 16), (24,)
    tensors = [Tensor("b", (40, 16), "int8"), Tensor("addend", sums, "int32")]
    tensors += [Tensor(name, sums, "int32") for name in ("y", "z")]
    tensors += [Tensor(name, peaks, "int32") for name in ("y peak", "z peak")]
    attributes = {"workload": WORKLOAD, "constants": constants}
    nodes = [
        Operation(WHOLE, "y", ("b", "addend"), "y", attributes, ("y",), ("y peak",)),
        Operation(WHOLE, "z", ("b", "y"), "z", attributes, ("z",), ("z peak",)),
    ]
    outputs = ("y peak", "z", "z peak")
    model = Graph("net", {one.name: one for one in tensors}, nodes, ("b", "addend"), outputs)
    feeds = {"b": b, "addend": addend}
    y, y_peak = WORKLOAD.reference((b, addend), constants)
    expected = dict(zip(outputs, (y_peak, *WORKLOAD.reference((b, y), constants)), strict=True))
    templates = list(load_registry(FAMILY).values())
    evaluated = evaluate(optimise(model, host_cpu(), templates), feeds)
    path = tmp_path / "net.tar"
    report = autoq.compile(model, target="cpu", output=path, registry=FAMILY)
    assert [len(step.outputs) for step in report.calls] == [2, 2]
    found = autoq.Session(path).run(None, feeds)
    for name, array in zip(outputs, found, strict=True):
        np.testing.assert_array_equal(array, expected[name])
        np.testing.assert_array_equal(evaluated[name], expected[name])
    (task,) = autoq.tuner.list_tasks(model, target="cpu", registry=FAMILY)
    assert (task.workload, task.count) == (WORKLOAD, 2)
