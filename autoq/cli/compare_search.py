"""`autoq compare-search`: search strategies beside each other, on recorded spaces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from autoq.cli.options import Registry, registry_option
from autoq.errors import InputError
from autoq.paths import require_writable

Spaces = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[SPACES]", help="Recorded spaces, or folders; default: those shipped."),
]
Strategies = Annotated[
    str,
    typer.Option(metavar="NAMES", help='Strategies with commas between, "all", or "ablation".'),
]
Seeds = Annotated[int, typer.Option(metavar="N", help="Replays of each strategy on each space.")]
Trials = Annotated[int, typer.Option(metavar="N", help="Trials of a replay.")]
Batch = Annotated[
    int, typer.Option(metavar="N", help="Configurations asked for at once; 0: as the strategy has.")
]
Processes = Annotated[
    int, typer.Option("--jobs", min=0, metavar="N", help="Processes at once; 0: one a core.")
]
Folder = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="NAME", help="Write NAME.json, NAME.md and NAME.png."),
]


def compare_search(
    spaces: Spaces = None,
    strategies: Strategies = "all",
    seeds: Seeds = 32,
    trials: Trials = 256,
    batch: Batch = 0,
    jobs: Processes = 0,
    output: Folder = None,
    registry: Registry = None,
) -> None:
    """Compare search strategies on recorded spaces.

    Replaying needs no device. Prints the trials that each needs to 90, 95 and 99% of the best
    recorded speed: median and 90th percentile over the seeds. "ablation" is the default strategy
    and itself without one idea each.
    """
    from autoq.replaying.available import available
    from autoq.replaying.comparison import compare_search as compare
    from autoq.replaying.loading import shipped_spaces
    from autoq.replaying.plot import draw
    from autoq.replaying.report import table, to_json
    from autoq.search.registry import ABLATIONS, DEFAULT_STRATEGY

    written = [output.with_suffix(end) for end in (".json", ".md", ".png")] if output else []
    for path in written:
        require_writable(path)
    paths = _files(spaces) if spaces else shipped_spaces()
    groups = {"all": available(), "ablation": [DEFAULT_STRATEGY, *ABLATIONS]}
    names = groups.get(strategies, [s.strip() for s in strategies.split(",")])
    found = compare(
        paths, names, seeds=seeds, trials=trials, batch=batch, jobs=jobs,
        notify=lambda text: typer.echo(text, err=True), **registry_option(registry),
    )  # fmt: skip
    data = to_json(found, {"seeds": seeds, "trials": trials, "batch": batch})
    text = table(data)
    typer.echo(text)
    if written:
        as_json, as_text, plot = written
        as_json.write_text(json.dumps(data) + "\n")
        as_text.write_text(text + "\n")
        draw(data, plot)


def _files(given: list[Path]) -> list[Path]:
    """The files of paths and folders."""
    from autoq.records.recorded_space import SUFFIX

    found: list[Path] = []
    for path in given:
        inside = sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
        if not inside:
            raise InputError(f"{path}: holds no recorded space (*{SUFFIX})")
        found += inside
    return list(dict.fromkeys(found))
