"""`autoq run`: an artifact on inputs from a file, or on made-up ones."""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path
from typing import Annotated, Any

import ml_dtypes
import numpy as np
import typer

from autoq.cli.options import Device, regular_file
from autoq.errors import InputError

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
        str,
        typer.Option(
            "--fill-mode", metavar="MODE", help="Without --inputs: random, ones or zeros."
        ),
    ] = "random",
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
        _save(outputs, dict(zip(names, results, strict=True)))
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
    from autoq.templates.storage import BYTE_DTYPES

    known = [item.name for item in session.get_inputs()]
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        if damaged:
            raise InputError(f"{path}: {damaged} is damaged; write the archive again")
        with np.load(path, allow_pickle=False) as archive:
            arrays = dict(archive)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        example = f"numpy.savez(file, **{{{known[0]!r}: array}})"
        raise InputError(f"{path}: not an .npz archive; write one with {example}") from error
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: holds more than plain arrays ({error})") from error
    for name in known:
        if name not in arrays:
            raise InputError(
                f"{path}: no array {name!r}; it holds {sorted(arrays)}, inputs are {known}"
            )
    unknown = sorted(set(arrays) - set(known))
    if unknown:
        raise InputError(f"{path}: array {unknown[0]!r} is no input; inputs are {known}")
    for item in session.get_inputs():
        if item.dtype in BYTE_DTYPES:
            held = BYTE_DTYPES[item.dtype]
            arrays[item.name] = _four_bits(path, item.name, arrays[item.name], item.dtype, held)
    return arrays


def _four_bits(path: Path, name: str, array: np.ndarray, dtype: str, held: str) -> np.ndarray:
    """Numbers of a 4-bit input `dtype`, which archives hold one a byte as `held`."""
    limits = ml_dtypes.iinfo(dtype)
    fits = array.dtype == held and array.size and limits.min <= array.min()
    if not fits or array.max() > limits.max:
        raise InputError(
            f"{path}: array {name!r} of {array.dtype}; {dtype} inputs are given as {held} arrays "
            f"of numbers from {limits.min} to {limits.max}"
        )
    return array.astype(dtype)


def _save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write an .npz archive, 4-bit numbers one a byte; a reader sees all of it or none."""
    from autoq.templates.storage import BYTE_DTYPES

    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        # numpy.savez cannot write arrays named "file", nor to a path without its suffix.
        with zipfile.ZipFile(part, "w") as archive:
            for name, array in arrays.items():
                array = array.astype(BYTE_DTYPES.get(str(array.dtype), array.dtype))
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error


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
            info = ml_dtypes.iinfo(item.dtype)
            least, most = max(int(info.min), -128), min(int(info.max), 255)
            feeds[item.name] = rng.integers(least, most + 1, item.shape).astype(item.dtype)
    return feeds
