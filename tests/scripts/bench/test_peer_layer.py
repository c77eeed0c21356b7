"""The layers and data that peers are given."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from peers.layer import LayerData, alpha, layer_of
from resnet50_cases import convolutions

from autoq.records.database import Database
from autoq.templates.epilogue import Epilogue, pack_scalars
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.oracle.reference import reference
from autoq.templates.workload_key import key


def _small(residual: bool) -> Conv2d:
    epilogue = Epilogue("uint8", "uint8" if residual else None, residual)
    return Conv2d(4, 5, 6, 8, 12, 3, 3, (1, 1), (1, 1, 1, 1), in_dtype="uint8", epilogue=epilogue)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
def test_expected_is_the_reference_of_the_whole_layer(residual: bool, per_channel: bool) -> None:
    layer = layer_of(_small(residual))
    data = LayerData(layer.workload)
    assert (layer.workload.in_dtype, layer.workload.epilogue.out_dtype) == ("int8", "int8")
    scale = data.scale if per_channel else np.full_like(data.scale, alpha(layer.workload))
    activations = [data.x] if data.residual is None else [data.x, data.residual]
    constants = {
        "weight": data.weight,
        "bias": np.zeros(layer.workload.k, np.int32),
        "scale": scale,
        "scalars": pack_scalars(low=-128.0, high=127.0),
    }
    whole = reference(layer.workload, activations, constants)
    assert data.max_steps(whole, per_channel) == 0
    assert {-128, 127} <= set(np.unique(whole))
    whole[3, 4, 5, 11] ^= 4  # in the last image, which repeats an earlier one
    assert data.max_steps(whole, per_channel) == 4


def test_images_repeat_only_where_the_period_divides_them() -> None:
    workload = dataclasses.replace(_small(False), n=3)
    data = LayerData(layer_of(workload).workload)
    assert data.x.shape == workload.x_shape
    assert not np.array_equal(data.x[0], data.x[1])


def test_first_layer_of_a_resnet_has_equal_forms() -> None:
    (first, *_) = convolutions(2)
    assert isinstance(first, Conv2d)
    forms = dict(layer_of(first).forms)
    assert len(forms) == 3
    assert {form.y_shape for form in forms.values()} == {(2, 112, 112, 64)}
    assert forms["7x7 over 3 channels"].x_shape == (2, 224, 224, 3)


@pytest.mark.parametrize("batch", [1, 8, 128])
def test_cases_are_those_of_the_network_that_was_tuned(batch: int) -> None:
    recorded = {key(found.record.workload) for found in Database.load([], shipped=True)}
    missing = [case for case in convolutions(batch) if key(case) not in recorded]
    assert not missing
