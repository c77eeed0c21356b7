"""Prunes the weights of an ONNX model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import onnx

from autoq.calibration import calibration_samples, read_archive
from autoq.errors import InputError, ModelError
from autoq.frontend.checks import require_sound
from autoq.frontend.read import read_model, require_other_than_model
from autoq.paths import as_path, require_other, require_writable
from autoq.pruning.activation_norms import activation_norms
from autoq.pruning.dead_channels import DeadChannels
from autoq.pruning.importance import by_activations, magnitude, taylor
from autoq.pruning.matrices import default_bounds, prune_matrices
from autoq.pruning.onnx_weights import Left, OnnxWeight, find_weights, node_name
from autoq.pruning.options import PruneOptions, require_fitting
from autoq.pruning.pattern import Pattern
from autoq.pruning.ranking import Bounds
from autoq.pruning.shared_inputs import rows_shared
from autoq.pruning.ties import Ties
from autoq.replace_file import replace_file
from autoq.templates.sparse.pruned_matrix import Pruned

_WITH_DEAD_CHANNELS = ("ew", "tw", "tew", "tvw")
"""Patterns that are the same in a matrix without some of its rows and columns."""


@dataclass(frozen=True, eq=False)
class PrunedWeight:
    """What was done to a weight.

    name: of the node that reads it, the first of `nodes`. weight: of its initializer. shape: of its
    matrix [k, n]. sparsity: the share of the matrix that is pruned. lost: the share of its
    importance, but for what multiplied constants and is in a bias; structure: of the matrix before
    channels are left out.
    """

    name: str
    nodes: tuple[str, ...]
    weight: str
    shape: tuple[int, int]
    sparsity: float
    lost: float
    structure: Pruned


@dataclass(frozen=True)
class PrunedModel:
    """What was done to a model: its weights, products that stay as they are, and how many channels
    became constant and were left out."""

    weights: list[PrunedWeight]
    left: list[Left] = field(default_factory=list)
    dead_channels: int = 0

    @property
    def sparsity(self) -> float:
        """The share of all these weights that is pruned."""
        sizes = [np.prod(one.shape) for one in self.weights]
        return float(np.average([one.sparsity for one in self.weights], weights=sizes))


def prune(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str],
    pattern: Pattern | str,
    sparsity: float,
    options: PruneOptions | None = None,
) -> PrunedModel:
    """Write `output`, the ONNX file `model` with the share `sparsity` of its weights pruned.

    pattern: with its figures, or a key of `pattern.KINDS` for the usual ones. The weights of
    MatMul, Gemm and Conv, of floats or integers that are dequantised, are ranked together; what is
    pruned becomes 0, integers their zero point. Channels that become constant are left out with
    the rows that read them. Any runtime takes the output.
    Raises InputError for options, arrays and sparsities that do not fit, ModelError for a model
    that cannot be read or has nothing to prune.
    """
    options = options or PruneOptions()
    pattern = Pattern.make(pattern) if isinstance(pattern, str) else pattern
    if not isinstance(pattern, Pattern) or not isinstance(options, PruneOptions):
        raise InputError(
            f"{pattern!r:.40} with {options!r:.40}: a Pattern or its name and PruneOptions do"
        )
    pattern.require_sparsity(sparsity)
    require_fitting(options, pattern)
    target = as_path(output)
    require_writable(target)
    require_other(target, options.calibration, options.gradients)
    require_other_than_model(target, model)
    proto = read_model(model)
    require_sound(proto, str(model))
    every, left = find_weights(proto)
    weights, skipped = _without(every, left, options.skip, str(model))
    if not weights:
        raise ModelError(
            f"{model}: no weight to prune; MatMul, Gemm and Conv of constant weights have one"
        )
    others = [one for one in every if one not in weights]
    result, channels = _prune_weights(proto, weights, others, pattern, sparsity, options)
    _save(proto, target)
    return PrunedModel(result, left + skipped, channels)


def _prune_weights(
    proto: onnx.ModelProto,
    weights: Sequence[OnnxWeight],
    others: Sequence[OnnxWeight],
    pattern: Pattern,
    sparsity: float,
    options: PruneOptions,
) -> tuple[list[PrunedWeight], int]:
    """What was done to each weight, and how many channels were left out; `others` stay dense."""
    scores = _scores(proto, weights, options)
    bounds = _bounds(weights, options, sparsity)
    removes = pattern.kind in _WITH_DEAD_CHANNELS and not options.keep_channels
    channels = DeadChannels(proto, weights, others) if removes or options.joint_channels else None
    joint = channels if options.joint_channels else None
    dead = channels if removes else None
    ties = Ties(
        None if dead is None else dead.rows,
        [] if joint is None else joint.joint(),
        rows_shared(proto.graph, weights) if options.shared_rows else [],
        *((), ()) if joint is None else joint.apart(),
        options.columns,
    )
    structures = prune_matrices(scores, pattern, sparsity, bounds, ties)
    masks = [one.mask for one in structures]
    for weight, mask in zip(weights, masks, strict=True):
        weight.prune(mask)
    lost = [~mask for mask in masks]
    if dead is not None:
        dead.remove(masks)
        lost = [one & ~dead.lost_rows(place)[:, None] for place, one in enumerate(lost)]
    made = []
    for weight, one, structure, gone in zip(weights, scores, structures, lost, strict=True):
        total = float(one.sum())
        made.append(
            PrunedWeight(
                weight.name,
                tuple(node_name(node) for node in weight.readers),
                weight.tensor.name,
                (one.shape[0], one.shape[1]),
                1 - float(structure.mask.mean()),
                float(one[gone].sum()) / total if total else 0.0,
                structure,
            )
        )
    return made, 0 if dead is None else dead.count


def _bounds(weights: Sequence[OnnxWeight], options: PruneOptions, sparsity: float) -> list[Bounds]:
    """Those of each weight; raises InputError for a pattern that no node's name has."""
    made = [options.bounds or default_bounds(sparsity)] * len(weights)
    for pattern, bounds in options.layer_bounds.items():
        matched = [
            place
            for place, one in enumerate(weights)
            if any(fnmatchcase(node_name(node), pattern) for node in one.readers)
        ]
        if not matched:
            raise InputError(
                f"bounds of {pattern!r:.80}: no product is called so; they are "
                f"{', '.join(one.name for one in weights)!s:.300}"
            )
        for place in matched:
            made[place] = bounds
    return made


def _without(
    weights: Sequence[OnnxWeight], left: Sequence[Left], skip: Sequence[str], source: str
) -> tuple[list[OnnxWeight], list[Left]]:
    """The weights that no skipped node reads, and the skipped ones."""
    if isinstance(skip, str):
        raise InputError(f"skip {skip!r:.80}: names of nodes in a list are expected")
    names = {node_name(node): one for one in weights for node in one.readers}
    unknown = [name for name in skip if name not in names and name not in {o.name for o in left}]
    if unknown:
        raise InputError(
            f"skip {unknown[0]!r:.80}: no product of {source}; they are {', '.join(names)!s:.300}"
        )
    skipped = {id(names[name]) for name in skip if name in names}
    return (
        [one for one in weights if id(one) not in skipped],
        [Left(one.name, "skipped") for one in weights if id(one) in skipped],
    )


def _scores(
    proto: onnx.ModelProto, weights: Sequence[OnnxWeight], options: PruneOptions
) -> list[np.ndarray]:
    """The importance of every weight, [k, n] each."""
    if options.calibration is not None and options.gradients is not None:
        raise InputError("calibration and gradients: each ranks weights on its own; give one")
    values = [_finite_values(one) for one in weights]
    if options.calibration is not None:
        samples = calibration_samples(proto, options.calibration)
        norms = activation_norms(proto, weights, samples)
        return [by_activations(v, norm) for v, norm in zip(values, norms, strict=True)]
    if options.gradients is None:
        return [magnitude(v) for v in values]
    arrays, source = read_archive(options.gradients, "gradients")
    return [
        taylor(v, _gradients(one, arrays, source)) for v, one in zip(values, weights, strict=True)
    ]


def _finite_values(weight: OnnxWeight) -> np.ndarray:
    """[k, n]; raises ModelError for a weight without an order of sizes."""
    values = weight.values()
    if not np.isfinite(values).all():
        raise ModelError(
            f"node {weight.name!r}: its weight {weight.tensor.name!r} holds NaN or infinities; "
            "export the model again, or skip the node"
        )
    return values


def _gradients(weight: OnnxWeight, arrays: Mapping[str, np.ndarray], source: str) -> np.ndarray:
    """[k, n], or [samples, k, n]."""
    name = next((n for n in (weight.tensor.name, weight.name) if n in arrays), None)
    if name is None:
        raise InputError(
            f"{source}: no array for the weight {weight.tensor.name!r}; it holds "
            f"{', '.join(sorted(arrays))!s:.300}; skip the node {weight.name!r}, or add one"
        )
    found, shape = arrays[name], tuple(weight.tensor.dims)
    if found.shape == shape:
        return weight.as_matrix(found)
    if found.shape[1:] == shape and len(found):
        return np.stack([weight.as_matrix(one) for one in found])
    raise InputError(
        f"{source}: {name!r} is {list(found.shape)}; gradients of this weight are {list(shape)}, "
        "or one such array a sample"
    )


def _save(proto: onnx.ModelProto, target: Path) -> None:
    try:
        content = proto.SerializeToString()
    except ValueError as error:
        raise ModelError(
            f"{target}: a model of more than 2 GB cannot be written into one file; prune it in "
            "parts"
        ) from error
    with replace_file(target) as file:
        file.write(content)
