"""`autoq prune`: leaves out weights of an ONNX model in a pattern that kernels can make use of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autoq.cli.options import Hardware, InputShapes, Model, Output, Target, host_of, parse_shapes
from autoq.errors import AutoqError, InputError

if TYPE_CHECKING:
    from autoq.pruning.model import PrunedModel
    from autoq.pruning.ranking import Bounds
    from autoq.report.pruning import PrunedRow
    from autoq.templates.target import Target as HardwareTarget

PATTERNS = ("ew", "vw", "bw", "tw", "trw", "tew", "tvw")

PatternName = Annotated[str, typer.Option(metavar="NAME", help=f"{', '.join(PATTERNS)}.")]
Sparsity = Annotated[
    float, typer.Option(metavar="SHARE", help="Share of the weights to prune, such as 0.75.")
]
Granularity = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Columns of a tile (tw, trw, tew, tvw: 128), extent of a block (bw: 16), rows of a "
        "vector (vw: 4).",
    ),
]
VectorText = Annotated[
    str | None, typer.Option("--vector", metavar="N:M", help="What tvw keeps in a tile: 2:4.")
]
Delta = Annotated[
    float | None, typer.Option(metavar="SHARE", help="Share that tew keeps beside tiles: 0.05.")
]
Run = Annotated[int | None, typer.Option(metavar="N", help="Rows that trw prunes together: 16.")]
Skip = Annotated[
    list[str] | None,
    typer.Option("--skip", metavar="NODE", help="A product to leave alone; may be repeated."),
]
BoundsText = Annotated[
    str | None,
    typer.Option(
        "--bounds",
        metavar="LEAST:MOST",
        help="Sparsity of each layer; up to 1 - (1 - SPARSITY) / 4 by default.",
    ),
]
LayerBounds = Annotated[
    list[str] | None,
    typer.Option(
        "--layer-bounds",
        metavar="NODES=LEAST:MOST",
        help="Bounds of nodes by a pattern of their names, such as '*.attention.*=0.7:0.8'; may be "
        "repeated.",
    ),
]
Calibration = Annotated[
    Path | None,
    typer.Option(
        metavar="NPZ", help="Samples for every input, to rank weights by what they multiply."
    ),
]
Gradients = Annotated[
    Path | None,
    typer.Option(
        metavar="NPZ", help="Gradients of every weight by its name, to rank by the loss incurred."
    ),
]
KeepChannels = Annotated[
    bool,
    typer.Option("--keep-channels", help="Leave channels that become constant in the model."),
]
JointChannels = Annotated[
    bool,
    typer.Option(
        "--joint-channels",
        help="Prune the same columns of products that are added, and whole heads of attention, so "
        "that these leave the model, too (tw, tvw).",
    ),
]
SharedRows = Annotated[
    bool,
    typer.Option(
        "--shared-rows",
        help="Prune the same rows in all tiles of a product and of those that read the same "
        "tensor, so that what they multiply is smaller (tw, tvw).",
    ),
]
Columns = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        help="How much of the pruning columns take where they leave with --joint-channels, and "
        "rows elsewhere: 0.5 prunes as many columns as rows, 1 whole channels alone.",
    ),
]


def prune(
    model: Model,
    output: Output,
    sparsity: Sparsity,
    pattern: PatternName = "tw",
    granularity: Granularity = None,
    vector: VectorText = None,
    delta: Delta = None,
    run: Run = None,
    skip: Skip = None,
    bounds: BoundsText = None,
    layer_bounds: LayerBounds = None,
    calibration: Calibration = None,
    gradients: Gradients = None,
    keep_channels: KeepChannels = False,
    joint_channels: JointChannels = False,
    shared_rows: SharedRows = False,
    columns: Columns = 0.5,
    input_shapes: InputShapes = None,
    target: Target = "cuda",
    hardware: Hardware = None,
) -> None:
    """Prune the weights of an ONNX model.

    Those of MatMul, Gemm and Conv, of floats or quantised. All layers are ranked together, and what
    is pruned becomes zero: any runtime takes the output.

    The times of layers that it prints are estimates for --target.
    """
    from autoq.devices import resolve
    from autoq.pruning.model import PruneOptions
    from autoq.pruning.model import prune as prune_model
    from autoq.pruning.pattern import Pattern
    from autoq.report.pruning import pruning_text

    made = Pattern.make(pattern, granularity, vector, delta, run)
    limits = None if bounds is None else _parse_bounds(bounds, "--bounds")
    own = dict(_parse_layer_bounds(text) for text in layer_bounds or ())
    shapes = parse_shapes(input_shapes)
    host = host_of(target, hardware)
    goal = (resolve(host) if isinstance(host, str) else host).target
    options = PruneOptions(
        tuple(skip or ()), limits, calibration, gradients, keep_channels, joint_channels,
        shared_rows, columns, own,
    )  # fmt: skip
    result = prune_model(model, output, made, sparsity, options)
    seconds, estimated = _estimates(model, goal, shapes)
    left = Counter(one.reason for one in result.left)
    rows = _rows(result, seconds)
    typer.echo(pruning_text(rows, left, result.sparsity, result.dead_channels, estimated))
    typer.echo(f"wrote {output}")


def _parse_layer_bounds(text: str) -> tuple[str, Bounds]:
    nodes, sign, limits = text.rpartition("=")
    if not nodes or not sign:
        raise InputError(
            f"--layer-bounds {text!r:.80}: a pattern of nodes and their bounds, such as "
            "'*.attention.*=0.7:0.8'"
        )
    return nodes, _parse_bounds(limits, "--layer-bounds")


def _parse_bounds(text: str, option: str) -> Bounds:
    from autoq.pruning.ranking import Bounds

    try:
        least, most = map(float, text.split(":"))
    except ValueError as error:
        raise InputError(
            f"{option} {text!r:.40}: the least and the most sparsity of a layer, such as 0.3:0.9"
        ) from error
    return Bounds(least, most)


def _estimates(
    model: Path, target: HardwareTarget, shapes: Mapping[str, Sequence[int]] | None
) -> tuple[dict[str, float], str]:
    """Seconds of dense layers by node, and what to say of them; none of a model of other use."""
    from autoq.pruning.estimate import dense_seconds

    try:
        seconds = dense_seconds(model, target, shapes)
    except AutoqError as error:
        return {}, f"no times are estimated: {error}"
    if not seconds:
        return {}, f"no times are estimated: nothing is known of these layers on {target.arch}"
    return seconds, f"estimates for {target.arch} and kernels that skip zeros, not measured"


def _rows(result: PrunedModel, seconds: Mapping[str, float]) -> list[PrunedRow]:
    from autoq.pruning.estimate import work_share
    from autoq.pruning.structure_text import structure_text
    from autoq.report.pruning import PrunedRow

    rows = []
    for one in result.weights:
        dense = sum(seconds[node] for node in one.nodes if node in seconds) or None
        rows.append(
            PrunedRow(
                one.name,
                *one.shape,
                one.sparsity,
                one.lost,
                structure_text(one.structure),
                dense,
                None if dense is None else dense * work_share(one.structure),
            )
        )
    return rows
