"""`autoq run`: an artifact on inputs from a file, or on made-up ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from autoq.errors import InputError

FILL_MODES = ("random", "ones", "zeros")


def run(
    artifact: Annotated[Path, typer.Argument(help="File written by autoq compile.")],
    inputs: Annotated[
        Path | None, typer.Option("--inputs", help=".npz with an array for every input.")
    ] = None,
    outputs: Annotated[Path | None, typer.Option("--outputs", help=".npz to write.")] = None,
    fill_mode: Annotated[
        str, typer.Option("--fill-mode", help="Without --inputs: random, ones or zeros.")
    ] = "random",
    print_time: Annotated[
        bool, typer.Option("--print-time", help="Print the median time.")
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Print the time of each layer.")
    ] = False,
    repeat: Annotated[int, typer.Option("--repeat", min=1, help="Timings a median is of.")] = 20,
    device: Annotated[int, typer.Option("--device", min=0, help="Number of the GPU.")] = 0,
) -> None:
    """Run a compiled model once, and time it on request."""
    from autoq.paths import require_writable
    from autoq.report.tables import profile_table
    from autoq.session import Session

    if outputs is not None:
        require_writable(outputs)
    session = Session(artifact, device=device)
    feeds = _load(inputs, session) if inputs else _fill(fill_mode, session)
    results = session.run(None, feeds)
    names = [output.name for output in session.get_outputs()]
    if outputs is not None:
        part = outputs.with_name(f".{outputs.name}.part.npz")
        np.savez(part, **dict(zip(names, results, strict=True)))
        part.replace(outputs)
        typer.echo(f"wrote {outputs}")
    else:
        for name, value in zip(names, results, strict=True):
            typer.echo(f"{name}: {value.dtype} {list(value.shape)}")
    if print_time:
        seconds = session.run_seconds(repeat)
        typer.echo(f"time: {seconds * 1e3:.3f} ms (median of {repeat}, inputs in place)")
    if profile:
        typer.echo(profile_table(session.profile(repeat)))


def _load(path: Path, session: Any) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise InputError(f"{path}: a single array; save inputs with numpy.savez(name=...)")
            arrays = dict(archive)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path}: not an .npz file ({error})") from error
    known = [item.name for item in session.get_inputs()]
    for name in known:
        if name not in arrays:
            raise InputError(
                f"{path}: no array {name!r}; it holds {sorted(arrays)}, inputs are {known}"
            )
    return arrays


def _fill(mode: str, session: Any) -> dict[str, np.ndarray]:
    if mode not in FILL_MODES:
        raise InputError(f"--fill-mode {mode!r}: choose {', '.join(FILL_MODES)}")
    rng = np.random.default_rng(0)
    feeds = {}
    for item in session.get_inputs():
        if mode != "random":
            feeds[item.name] = np.full(item.shape, mode == "ones", item.dtype)
        elif item.dtype.startswith("float"):
            feeds[item.name] = rng.standard_normal(item.shape).astype(item.dtype)
        else:
            info = np.iinfo(item.dtype)
            feeds[item.name] = rng.integers(
                max(info.min, -128), min(info.max, 255), item.shape, item.dtype, endpoint=True
            )
    return feeds
