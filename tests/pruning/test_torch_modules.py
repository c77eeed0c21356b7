"""Pruning torch modules; all but the first test need torch."""

import sys

import numpy as np
import pytest

from autoq.errors import InputError
from autoq.pruning import torch_modules


def test_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match="pip install torch"):
        torch_modules.prunable(object())


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def module(torch):
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 8, (3, 2)), nn.Conv2d(8, 8, 1, groups=8), nn.Flatten(), nn.Linear(16, 5)
    )


def loss(module, batch):
    return module(batch).square().sum()


def test_weights_are_matrices_and_back(module):
    parameters = torch_modules.prunable(module)
    assert list(parameters) == ["0.weight", "3.weight"]
    values = torch_modules.matrices(parameters)
    conv = parameters["0.weight"].detach().numpy()
    assert np.array_equal(values["0.weight"], conv.transpose(2, 3, 1, 0).reshape(18, 8))
    assert np.array_equal(values["3.weight"], parameters["3.weight"].detach().numpy().T)
    before = conv.copy()
    torch_modules.write(parameters, {name: one * 2 for name, one in values.items()})
    assert np.array_equal(parameters["0.weight"].detach().numpy(), before * 2)
    with pytest.raises(InputError, match="skip 'absent'"):
        torch_modules.prunable(module, ["absent"])


def test_scores_are_those_of_each_batch(module, torch):
    parameters = torch_modules.prunable(module)
    batches = [torch.randn(1, 3, 3, 3) for _ in range(2)]
    scores = torch_modules.taylor_scores(module, parameters, batches, loss)
    weight = parameters["3.weight"]
    expected = 0
    for batch in batches:
        (gradient,) = torch.autograd.grad(loss(module, batch), weight)
        expected = expected + (gradient * weight).square() / 2
    assert np.allclose(scores["3.weight"], expected.detach().numpy().T, rtol=1e-4)
    with pytest.raises(InputError, match="no batch"):
        torch_modules.taylor_scores(module, parameters, [], loss)


def test_masks_are_kept_through_training(module, torch):
    parameters = torch_modules.prunable(module)
    rng = np.random.default_rng(0)
    masks = {
        name: rng.random(one.shape) < 0.5
        for name, one in torch_modules.matrices(parameters).items()
    }
    optimizer = torch.optim.Adam(module.parameters())
    kept = torch_modules.KeptMasks(parameters, masks, optimizer)
    for step in range(4):
        if step == 3:
            kept.remove()
        loss(module, torch.randn(2, 3, 3, 3)).backward()
        optimizer.step()
        values = torch_modules.matrices(parameters)
        zeros = [not values[name][~mask].any() for name, mask in masks.items()]
        assert zeros == [step < 3] * 2
