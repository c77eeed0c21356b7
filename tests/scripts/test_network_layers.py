"""Layers to learn from are strange to the networks that a model is judged by."""

from __future__ import annotations

import json

import grouped_cases
import network_layers
import resnet50_cases

from autoq.devices import resolve
from autoq.knowledge.lessons import shape_of
from autoq.measure.job import REGISTRY, load_registry
from autoq.recording.workloads import given_workloads
from autoq.templates.registry import matching


def test_no_layer_has_a_shape_of_the_networks_that_judge():
    judging = [*resnet50_cases.convolutions(8), *grouped_cases.convolutions(8)]
    shapes = {shape_of(layer) for layer in network_layers.CASES}
    assert len(shapes) == len(network_layers.CASES)
    assert not shapes & {shape_of(layer) for layer in judging}


def test_each_is_printed_as_a_recording_takes_it_and_has_a_template(capsys, tmp_path):
    network_layers.main()
    path = tmp_path / "layers.json"
    path.write_text(capsys.readouterr().out)
    target, templates = resolve("cuda:sm_90a").target, list(load_registry(REGISTRY).values())
    assert len(json.loads(path.read_text())) == len(network_layers.CASES)
    assert given_workloads(path, target, templates) == network_layers.CASES
    assert all(matching(layer, target, templates) for layer in network_layers.CASES)
