"""`autoq run`: an artifact on inputs from a file, or on made-up ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import ml_dtypes
import numpy as np
import typer

from autoq.cli.options import Device, regular_file
from autoq.errors import InputError
from autoq.templates.arrays.element import element

FILL_MODES = ("random", "ones", "zeros")


def run(
    artifact: Annotated[
        Path, typer.Argument(metavar="ARTIFACT", help="File written by autoq compile.")
    ],
    inputs: Annotated[
        Path | None,
        typer.Option(
            "--inputs",
            metavar="NPZ",
            help="Archive with an array for every input; 4-bit ones as int8 or uint8.",
        ),
    ] = None,
    outputs: Annotated[
        Path | None,
        typer.Option("--outputs", metavar="NPZ", callback=regular_file, help="Archive to write."),
    ] = None,
    fill_mode: Annotated[
        str | None,
        typer.Option(
            "--fill-mode",
            metavar="MODE",
            help="Without --inputs: random (the default), ones or zeros.",
        ),
    ] = None,
    print_time: Annotated[
        bool, typer.Option("--print-time", help="Print the median time.")
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Print the time of each layer.")
    ] = False,
    repeat: Annotated[
        int, typer.Option("--repeat", min=1, metavar="N", help="Timings a median is of.")
    ] = 20,
    device: Device = 0,
) -> None:
    """Run a compiled model, and time it on request."""
    from autoq.cli.npz import read_arrays, write_arrays
    from autoq.paths import require_other, require_writable
    from autoq.report.tables import profile_table
    from autoq.session import Session

    if inputs is not None and fill_mode is not None:
        raise InputError("--fill-mode: says what is run without --inputs; give one of the two")
    if outputs is not None:
        require_writable(outputs)
        require_other(outputs, artifact, inputs)
    session = Session(artifact, device=device)
    feeds = (
        read_arrays(inputs, session.get_inputs())
        if inputs
        else _fill(fill_mode or "random", session)
    )
    results = session.run(None, feeds)
    names = [output.name for output in session.get_outputs()]
    if outputs is not None:
        write_arrays(outputs, dict(zip(names, results, strict=True)))
        typer.echo(f"wrote {outputs}")
    else:
        for name, value in zip(names, results, strict=True):
            typer.echo(f"{name}: {value.dtype} {list(value.shape)}")
    if print_time:
        seconds = session.run_seconds(repeat)
        typer.echo(f"time: {seconds * 1e3:.3f} ms (median of {repeat}, inputs in place)")
    if profile:
        typer.echo(profile_table(session.profile(repeat)))


def _fill(mode: str, session: Any) -> dict[str, np.ndarray]:
    if mode not in FILL_MODES:
        raise InputError(f"--fill-mode {mode!r}: choose {', '.join(FILL_MODES)}")
    rng = np.random.default_rng(0)
    feeds = {}
    for item in session.get_inputs():
        if mode != "random":
            feeds[item.name] = np.full(item.shape, mode == "ones", item.dtype)
        elif element(item.dtype).floating:
            feeds[item.name] = rng.standard_normal(item.shape).astype(item.dtype)
        elif item.dtype == "bool":
            feeds[item.name] = rng.integers(0, 2, item.shape).astype(item.dtype)
        else:
            info = ml_dtypes.iinfo(item.dtype)
            least, most = max(int(info.min), -128), min(int(info.max), 255)
            feeds[item.name] = rng.integers(least, most + 1, item.shape).astype(item.dtype)
    return feeds
