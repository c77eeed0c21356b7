"""The order of the passes, and what a caller asks of an optimised graph."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

from autoq.errors import InputError
from autoq.graph.corrections import chosen_settings
from autoq.graph.ir import Graph, Layer
from autoq.graph.lowering.know_zeros import know_zeros
from autoq.graph.lowering.lower import lower
from autoq.graph.lowering.merging.attention import merge_attention
from autoq.graph.lowering.merging.concat import merge_concat
from autoq.graph.lowering.merging.factor import merge_factor
from autoq.graph.lowering.merging.gathers import merge_gathers
from autoq.graph.lowering.merging.picks import merge_picks
from autoq.graph.lowering.merging.products import merge_products
from autoq.graph.lowering.merging.quantised import merge_quantised
from autoq.graph.lowering.merging.rows import merge_rows
from autoq.graph.lowering.merging.siblings import merge_siblings
from autoq.graph.lowering.sparse_attention import attend_sparsely
from autoq.graph.passes.channels.channel_padding import pad_hidden_channels
from autoq.graph.passes.channels.channel_shuffle import find_channel_shuffles
from autoq.graph.passes.channels.convolve_beside import convolve_beside
from autoq.graph.passes.channels.join_branches import join_branches
from autoq.graph.passes.channels.stem import widen_stem
from autoq.graph.passes.dtypes.activation_dtype import choose_activation_dtypes
from autoq.graph.passes.dtypes.storage import choose_storage
from autoq.graph.passes.fusions.gather_fusions import gather_fusions
from autoq.graph.passes.layers.fuse_batched import fuse_batched_products
from autoq.graph.passes.layers.fuse_float_convolutions import fuse_float_convolutions
from autoq.graph.passes.layers.fuse_float_products import fuse_float_products
from autoq.graph.passes.layers.fuse_movement import fuse_movement
from autoq.graph.passes.layers.fuse_products import fuse_products
from autoq.graph.passes.layers.residual_products import residual_products
from autoq.graph.passes.preparation.dequantise_late import dequantise_late
from autoq.graph.passes.preparation.drop_unit_axes import drop_unit_axes
from autoq.graph.passes.preparation.fold_affine import fold_affine
from autoq.graph.passes.preparation.fold_constants import fold_dequantisations, fold_operations
from autoq.graph.passes.preparation.functions_first import functions_first
from autoq.graph.passes.preparation.join_turns import join_turns
from autoq.graph.passes.preparation.move_late import move_late
from autoq.graph.passes.preparation.nan_guards import drop_nan_guards
from autoq.graph.passes.preparation.pick_early import pick_early
from autoq.graph.passes.preparation.reshape_late import reshape_late
from autoq.graph.passes.preparation.split_products import split_products
from autoq.graph.passes.preparation.turn_late import turn_first, turn_late
from autoq.graph.passes.tables.absorb_tables import absorb_tables
from autoq.graph.passes.tables.gather_tables import gather_tables, tabulate_fusions
from autoq.graph.precision import AttentionPrecision, Precision, ResidualPrecision
from autoq.graph.rewrite import prune
from autoq.graph.shapes import check_size
from autoq.residual.setting import Setting
from autoq.templates.base import Template
from autoq.templates.registry import TEMPLATES, matching
from autoq.templates.target import Target
from autoq.templates.workload import Workload


def optimise(
    graph: Graph,
    target: Target,
    templates: Sequence[Template] = TEMPLATES,
    precision: Precision | None = None,
) -> Graph:
    """The layers and fusions that compute a semantic graph on `target`, in running order.

    The given graph is left as it is. templates are those that kernels may come from. precision:
    some floats are computed through integers, as a user asks. Raises InputError where none of them
    can be, or not within its tolerance.
    """
    # Scores that no array holds need none where attention is one kernel, which shows at the end.
    made = _optimised(graph, target, templates, precision, long=True)
    layers = (node.workload for node in made.nodes if isinstance(node, Layer))
    if not all(matching(w, target, templates) for w in layers if w.of_one_pair != w):
        made = _optimised(graph, target, templates, precision, long=False)
    _check_arrays(made)
    return made


def _check_arrays(graph: Graph) -> None:
    """Raise InputError for an array of more elements than kernels can index."""
    for node in graph.nodes:
        for name in node.outputs:
            try:
                check_size(graph.tensors[name].shape)
            except ValueError as error:
                raise InputError(
                    f"{graph.name}: node {node.name!r}: {error} in an array; scores of attention "
                    "need none where one kernel computes it: use a shorter sequence or batch"
                ) from error


def _optimised(
    graph: Graph,
    target: Target,
    templates: Sequence[Template],
    precision: Precision | None,
    long: bool,
) -> Graph:
    """What `optimise` says; long: as in `fuse_float_products`."""
    settings: Mapping[str, Setting] = {}
    if isinstance(precision, ResidualPrecision) and precision.tolerance is not None:
        floats = optimise(graph, target, templates)
        settings = chosen_settings(floats, precision, target)
    graph = _copied(graph)
    prune(graph)
    pick_early(graph)
    turn_late(graph)
    reshape_late(graph)
    move_late(graph)
    dequantise_late(graph)
    turn_first(graph)
    fold_operations(graph)
    drop_nan_guards(graph)
    fold_affine(graph)
    split_products(graph)
    drop_unit_axes(graph)
    functions_first(graph)
    join_turns(graph)
    if isinstance(precision, ResidualPrecision):
        residual_products(graph, target, templates, precision, settings)
    find_channel_shuffles(graph)
    choose_activation_dtypes(graph, target)
    gather_tables(graph)
    fuse_float_products(graph, target, templates, long)
    fuse_float_convolutions(graph, target, templates)
    fuse_products(graph, target, templates)
    fuse_batched_products(graph)
    fold_dequantisations(graph)
    fuse_movement(graph)
    convolve_beside(graph, target)
    join_branches(graph, target)
    gather_fusions(graph)
    tabulate_fusions(graph)
    widen_stem(graph, target)
    pad_hidden_channels(graph, target)
    lowered = lower(graph)
    merge_rows(lowered, target)
    merge_gathers(lowered, target)
    choose_storage(lowered, target, templates)
    absorb_tables(lowered, target, templates)
    merge_attention(lowered, target, templates)
    if isinstance(precision, AttentionPrecision):
        attend_sparsely(lowered, target, templates, precision)
    merge_picks(lowered, target, templates)
    know_zeros(lowered, target, templates)
    merge_factor(lowered, target, templates)
    merge_products(lowered, target, templates)
    merge_concat(lowered, target, templates)
    merge_quantised(lowered, target, templates)
    merge_siblings(lowered, target)
    return lowered


def workloads(graph: Graph) -> list[tuple[Workload, int, tuple[str, ...]]]:
    """Distinct workloads of an optimised graph in the order of their first use.

    Each with the number of layers that have it and their names.
    """
    names: dict[Workload, list[str]] = {}
    for node in graph.nodes:
        if isinstance(node, Layer):
            names.setdefault(node.workload, []).append(node.name)
    return [(workload, len(used), tuple(used)) for workload, used in names.items()]


def _copied(graph: Graph) -> Graph:
    """A copy whose nodes may be changed; constants are shared."""
    nodes = [copy.copy(node) for node in graph.operations]
    for node in nodes:
        node.attributes = dict(node.attributes)
    return Graph(
        graph.name,
        dict(graph.tensors),
        list(nodes),
        graph.inputs,
        graph.outputs,
        dict(graph.constants),
    )
