"""The row of a user's own GPU, read from a JSON file."""

from __future__ import annotations

import json
import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from autoq.errors import InputError
from autoq.paths import content_of
from autoq.templates.hardware import HARDWARE, Hardware, lacks

_OPERATIONS = (1e11, 1e17, "operations a second")
_FIGURES = {
    "units": (1, 1024, "multiprocessors"),
    "clustered_units": (1, 1024, "multiprocessors"),
    "clock_hz": (1e8, 1e10, "hertz"),
    "l2_bytes": (1 << 16, 1 << 32, "bytes"),
    "memory_rate": (1e10, 1e14, "bytes a second"),
    "launch_seconds": (1e-8, 1e-3, "seconds"),
    "int4_rate": _OPERATIONS,
    "int8_rate": _OPERATIONS,
    "float16_rate": _OPERATIONS,
    "bfloat16_rate": _OPERATIONS,
    "e4m3_rate": _OPERATIONS,
    "float32_rate": _OPERATIONS,
    "sparse_factor": (1.0, 4.0, "times as fast"),
}
"""Least and most of each figure, so that one in another unit is found, and its unit."""

_WHOLE = ("units", "clustered_units", "l2_bytes")
_NEEDED = ("arch", "product", "units", "int8_rate", "memory_rate")


def read_hardware(path: str | os.PathLike[str]) -> tuple[str, Hardware]:
    """Architecture and row of the GPU that a file describes.

    The file is a JSON object: `arch`, `product`, `units`, `int8_rate`, `memory_rate` and any other
    figure of a product that `Hardware` has. What is left out is unknown. Limits of the architecture
    are autoq's own.

    Raises InputError, which names the file and its first mistake.
    """
    values = _read(Path(path))
    arch = _checked(values, path)
    figures = {name: values.get(name, 0) for name in _FIGURES}
    limits = HARDWARE[arch].of_units(int(values["units"]))
    # How far clusters fill the multiprocessors, and that sparse products have a form of their own,
    # lie in the architecture.
    figures["clustered_units"] = values.get("clustered_units", limits.clustered_units)
    figures["sparse_factor"] = values.get("sparse_factor", limits.sparse_factor)
    return arch, replace(limits, product=values["product"], source=str(path), **figures)


def _read(path: Path) -> dict[str, Any]:
    try:
        pairs = json.loads(content_of(path).decode(), object_pairs_hook=tuple)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except RecursionError:
        raise InputError(f"{path}: values are nested too deep") from None
    except ValueError as error:
        raise InputError(f"{path}: no JSON: {error}") from error
    if not isinstance(pairs, tuple):
        found = type(pairs).__name__
        raise InputError(f"{path}: expected an object with the figures of a GPU, found {found}")
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise InputError(f"{path}: {name!r} is there twice; leave one out")
        values[name] = value
    return values


def _checked(values: dict[str, Any], path: str | os.PathLike[str]) -> str:
    """The architecture, once every value is one that a GPU could have."""
    limits = {field.name for field in fields(Hardware)} - {*_FIGURES, "product", "source"}
    for name in values:
        if name in limits:
            raise InputError(f"{path}: {name!r} is the architecture's, not the GPU's; leave it out")
        if name not in (*_FIGURES, *_NEEDED):
            known = ", ".join(("arch", "product", *_FIGURES))
            raise InputError(f"{path}: unknown figure {name!r}; known are {known}")
    for name in _NEEDED:
        if name not in values:
            raise InputError(f"{path}: no {name!r}; a row has at least {', '.join(_NEEDED)}")
    arch, product = values["arch"], values["product"]
    if not isinstance(arch, str) or arch not in HARDWARE:
        raise InputError(f"{path}: arch is {arch!r}; known are {', '.join(HARDWARE)}")
    if not isinstance(product, str) or not product.isprintable() or not product.strip():
        raise InputError(f"{path}: product is {product!r}; expected the name of a GPU")
    for name in _FIGURES:
        if name in values:
            _check_figure(name, values[name], arch, path)
    if values.get("clustered_units", 1) > values["units"]:
        raise InputError(
            f"{path}: clustered_units is {values['clustered_units']}, of {values['units']} units"
        )
    return arch


def _check_figure(name: str, value: Any, arch: str, path: str | os.PathLike[str]) -> None:
    if lacks(arch, name):
        raise InputError(f"{path}: {arch} has nothing that {name} could be of; leave it out")
    least, most, unit = _FIGURES[name]
    # Python takes a bool for an int, and no comparison with NaN holds.
    number = type(value) is int or (type(value) is float and name not in _WHOLE)
    if not number or not least <= value <= most:
        kind = "a whole number" if name in _WHOLE else "a number"
        raise InputError(
            f"{path}: {name} is {_short(value)}; expected {kind} from {least:g} to {most:g}, {unit}"
        )


def _short(value: Any) -> str:
    """A value as JSON has it, of a few dozen characters."""
    if isinstance(value, int) and abs(value) > 1 << 64:
        return "a number that is out of range"
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
