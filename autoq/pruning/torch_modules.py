"""Weights of torch modules as matrices, their gradients on data, and masks that training keeps.

torch is no dependency of autoq: whoever has a module has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from autoq.errors import InputError

if TYPE_CHECKING:
    import torch

Loss = Callable[[Any, Any], Any]
"""From a module and a batch to a scalar tensor."""


def prunable(module: torch.nn.Module, skip: Sequence[str] = ()) -> dict[str, torch.nn.Parameter]:
    """The weights of linear layers and of convolutions without groups, by parameter name.

    Raises InputError where torch is missing, for a name in `skip` that is no such weight, and where
    nothing is left.
    """
    nn = _torch().nn
    found: dict[str, torch.nn.Parameter] = {}
    for name, one in module.named_modules():
        convolves = isinstance(one, nn.Conv1d | nn.Conv2d | nn.Conv3d) and one.groups == 1
        if isinstance(one, nn.Linear) or convolves:
            found[f"{name}.weight" if name else "weight"] = one.weight
    unknown = sorted(set(skip) - set(found))
    if unknown:
        raise InputError(f"skip {unknown[0]!r}: no weight; they are {', '.join(found)!s:.300}")
    chosen = {name: one for name, one in found.items() if name not in skip}
    if not chosen:
        raise InputError("no weight to prune; linear layers and convolutions have one")
    return chosen


def matrices(parameters: Mapping[str, torch.nn.Parameter]) -> dict[str, np.ndarray]:
    """Weights as float32 matrices [k, n], a convolution's as im2col has it."""
    return {name: _as_matrix(one.detach().float()) for name, one in parameters.items()}


def write(parameters: Mapping[str, torch.nn.Parameter], values: Mapping[str, np.ndarray]) -> None:
    """Give parameters the values of matrices [k, n]."""
    torch = _torch()
    with torch.no_grad():
        for name, one in parameters.items():
            one.copy_(torch.from_numpy(_as_weight(values[name], tuple(one.shape))))


def taylor_scores(
    module: torch.nn.Module,
    parameters: Mapping[str, torch.nn.Parameter],
    batches: Iterable[Any],
    loss: Loss,
) -> dict[str, np.ndarray]:
    """(gradient * weight) squared, averaged over batches of calibration data, [k, n] by name."""
    gradients = root_mean_square_gradients(module, parameters, batches, loss)
    weights = matrices(parameters)
    return {
        name: np.square(_matrix_of(one) * weights[name].astype(np.float64))
        for name, one in gradients.items()
    }


def root_mean_square_gradients(
    module: torch.nn.Module,
    parameters: Mapping[str, torch.nn.Parameter],
    batches: Iterable[Any],
    loss: Loss,
) -> dict[str, np.ndarray]:
    """Of every weight the root of its squared gradient's mean over batches, in its own shape.

    numpy.savez of these is what `autoq prune --gradients` takes. Gradients that the module holds
    are left as they are. Raises InputError for no batch.
    """
    torch = _torch()
    squares = {name: torch.zeros_like(one, dtype=torch.float64) for name, one in parameters.items()}
    count = 0
    for batch in batches:
        found = torch.autograd.grad(loss(module, batch), list(parameters.values()))
        for sums, gradient in zip(squares.values(), found, strict=True):
            sums += gradient.double().square()
        count += 1
    if not count:
        raise InputError("no batch of calibration data; give one or more")
    return {name: (sums / count).sqrt().cpu().numpy() for name, sums in squares.items()}


class KeptMasks:
    """Holds pruned weights at zero while an optimizer trains: after each of its steps."""

    def __init__(
        self,
        parameters: Mapping[str, torch.nn.Parameter],
        masks: Mapping[str, np.ndarray],
        optimizer: torch.optim.Optimizer,
    ) -> None:
        """masks: bool [k, n] by name, True where a weight is kept. `remove` ends it."""
        torch = _torch()
        self._kept = [
            (one, torch.from_numpy(_as_weight(masks[name], tuple(one.shape))).to(one.device))
            for name, one in parameters.items()
        ]
        self.apply()
        self._hook = optimizer.register_step_post_hook(lambda *_: self.apply())

    def apply(self) -> None:
        """Make pruned weights zero."""
        with _torch().no_grad():
            for parameter, mask in self._kept:
                parameter.mul_(mask)

    def remove(self) -> None:
        """Let the optimizer train all weights again."""
        self._hook.remove()


def _as_matrix(weight: torch.Tensor) -> np.ndarray:
    return _matrix_of(weight.cpu().numpy())


def _matrix_of(array: np.ndarray) -> np.ndarray:
    """[n, k] of a linear layer, [n, c, taps ...] of a convolution, as [k, n]."""
    return np.moveaxis(array, (0, 1), (-1, -2)).reshape(-1, array.shape[0])


def _as_weight(matrix: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    unfolded = matrix.reshape(*shape[2:], shape[1], shape[0])
    return np.ascontiguousarray(np.moveaxis(unfolded, (-1, -2), (0, 1)))


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise InputError("pruning a torch module needs torch: pip install torch") from error
    return torch
