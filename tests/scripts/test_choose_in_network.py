"""Records of a model's kernels meet in the network, and noise changes nothing."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from choose_in_network import contests, settle
from qdq.writer import GraphWriter

from autoq.devices import resolve
from autoq.frontend import load
from autoq.graph import Layer, optimise
from autoq.records.database import Database
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import matching
from autoq.templates.workload_key import to_dict

HOST = resolve("cuda:sm_90a")
PROVENANCE = {
    "repeats": 1, "device": "NVIDIA H100 80GB HBM3", "arch": "sm_90a", "driver": "1",
    "cuda": "13.0", "tvm": "1", "autoq": "1", "time": "2026-11-25T00:00:00Z",
}  # fmt: skip


@pytest.fixture
def found(tmp_path):
    """The contest of two equal products in a row, of which two configurations are recorded."""
    writer = GraphWriter(np.random.default_rng(0), exact=True)
    writer.opset = 17
    x = writer.node("Flatten", [writer.reals[0].name], (1, 1), axis=1)
    shape = np.prod(writer.reals[0].shape[1:]), 32
    first = writer.constant(np.ones(shape, np.int8))
    second = writer.constant(np.ones((32, 32), np.int8))
    scale, zero = writer.constant(np.float32(0.02)), writer.constant(np.int8(0))
    for weight in (first, second, second):
        real = writer.node("DequantizeLinear", [weight, scale, zero], (1, 1))
        x = writer.node("MatMul", [x.name, real.name], (1, 1))
        x = writer.node("QuantizeLinear", [x.name, scale, zero], (1, 1))
        x = writer.node("DequantizeLinear", [x.name, scale, zero], (1, 1))
    writer.reals.append(x)
    onnx.save(writer.finish(), tmp_path / "model.onnx")
    layers = [
        node.workload
        for node in optimise(load(tmp_path / "model.onnx"), HOST.target).nodes
        if isinstance(node, Layer) and isinstance(node.workload, Gemm)
    ]
    workload = layers[-1]
    template = matching(workload, HOST.target)[0]
    space = template.space(workload, HOST.target)
    lines = [
        {
            "format": 1, "workload": to_dict(workload), "template": template.name,
            "template_version": template.version, "config": space.to_dict(config),
            "seconds": seconds, **PROVENANCE,
        }
        for config, seconds in zip(space.sample(np.random.default_rng(0), 2), (2e-6, 1e-6),
                                   strict=True)
    ]  # fmt: skip
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    database = Database.load(tmp_path / "a.jsonl", shipped=True)
    (contest,) = contests(tmp_path / "model.onnx", HOST, database, 6)
    return contest


class Fake:
    """A network whose graphs take what they are told."""

    def __init__(self, seconds: list[float]) -> None:
        self.seconds, self.kernels, self.memory = seconds, {}, []

    def placed(self, kernel, constants):
        return {index: (kernel, index) for index in constants}, [kernel]

    def graph(self, placed):
        return SimpleNamespace(placed=placed)

    def turns(self, graphs):
        assert len(graphs) == len(self.seconds)
        return self.seconds


def test_layers_of_one_workload_meet_with_all_its_records(found):
    assert len(found.layers) == 2
    assert [choice.found.record.seconds for choice in found.choices] == [1e-6, 2e-6]
    assert [one.config for one in found.selections] == [one.config for one in found.choices]
    constants = found.constants(found.choices[0])
    assert constants.keys() == found.layers.keys()


@pytest.mark.parametrize(("seconds", "best"), [
    ([400e-6, 390e-6], 1), ([400e-6, 399.9e-6], 0), ([400e-6, 410e-6], 0)
])  # fmt: skip
def test_the_fastest_network_decides_but_for_noise(found, seconds, best):
    network = Fake(seconds)
    chosen = settle(network, found, ["fast alone", "slow alone"])
    assert chosen is found.choices[best]
    name = ("fast alone", "slow alone")[best]
    assert network.kernels == {index: (name, index) for index in found.layers}
    assert network.memory == [name]
