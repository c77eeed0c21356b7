"""How a model is pruned, beside pattern and sparsity."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from autoq.errors import InputError
from autoq.pruning.pattern import Pattern
from autoq.pruning.ranking import Bounds

_OF_COLUMNS = ("tw", "tvw")
"""Patterns that prune columns which others may share."""

Arrays = str | os.PathLike[str] | Mapping[str, np.ndarray]


@dataclass(frozen=True)
class PruneOptions:
    """How a model is pruned, beside pattern and sparsity.

    skip: nodes whose weights stay, but for rows that multiply channels which are left out.
    bounds: of the sparsity of each layer; `default_bounds` where None. layer_bounds: other bounds
    for nodes whose names match a pattern such as "*.attention.*", of several the last one.
    calibration: an .npz file or a mapping with an array of samples for every input: weights are
    ranked by what they multiply, too. gradients: the same with an array for every weight by the
    name of its initializer or node, in the shape of the weight or one such a sample: weights are
    ranked by the loss that their removal incurs. Without either they are ranked by their size.
    keep_channels: whether channels that become constant stay in the model. joint_channels: whether
    products prune the same columns whose outputs are added, and columns of an attention's head go
    together, by their importance in all of these, so that channels of sums and heads become
    constant, too. shared_rows: whether all tiles of a MatMul or Gemm, and of those that read the
    same tensor, keep the same rows, so that others need not be read. columns: as in `Ties`, of
    joint channels.
    """

    skip: Sequence[str] = ()
    bounds: Bounds | None = None
    calibration: Arrays | None = None
    gradients: Arrays | None = None
    keep_channels: bool = False
    joint_channels: bool = False
    shared_rows: bool = False
    columns: float = 0.5
    layer_bounds: Mapping[str, Bounds] = field(default_factory=dict)


def require_fitting(options: PruneOptions, pattern: Pattern) -> None:
    """Raise InputError for options that a pattern cannot have, or that do not go together."""
    if options.joint_channels and pattern.kind not in _OF_COLUMNS:
        raise InputError(
            f"joint channels: {pattern} prunes no columns; {' and '.join(_OF_COLUMNS)} do"
        )
    if options.shared_rows and pattern.kind not in _OF_COLUMNS:
        raise InputError(
            f"shared rows: {pattern} has no tiles alone; {' and '.join(_OF_COLUMNS)} do"
        )
    if not 0 <= options.columns <= 1:
        raise InputError(
            f"columns {options.columns:g}: how much of the pruning they take, from 0 to 1; rows "
            "take the rest"
        )
    if options.columns != PruneOptions.columns and not options.joint_channels:
        raise InputError(
            f"columns {options.columns:g}: ask for joint channels too; pruned columns gain little "
            "unless they leave the model"
        )
