"""Options that several verbs share, and how their texts are read."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autoq.errors import InputError

if TYPE_CHECKING:
    from autoq.devices import Host

TARGET_HELP = (
    "cuda (the GPU here, else sm_90a), cuda:sm_80, cpu, or auto: a CUDA GPU if there is one, "
    "else the CPU."
)

Hardware = Annotated[
    Path | None,
    typer.Option(
        "--hardware", metavar="FILE", help="Figures of your own GPU, JSON; see docs/guide.md."
    ),
]
Target = Annotated[str, typer.Option("--target", metavar="TARGET", help=TARGET_HELP)]


def regular_file(path: Path | None) -> Path | None:
    """The path as it is, unless a device or pipe is there, which writing would replace."""
    if path is not None and path.exists() and not path.is_file() and not path.is_dir():
        raise InputError(f"{path}: is no regular file; name another output")
    return path


Model = Annotated[Path, typer.Argument(metavar="MODEL", help="ONNX file.", show_default=False)]
Output = Annotated[
    Path,
    typer.Option("-o", "--output", metavar="FILE", callback=regular_file, help="File to write."),
]
InputShapes = Annotated[
    str | None,
    typer.Option(
        "--input-shapes",
        metavar="SHAPES",
        help='Shapes of dynamic inputs, e.g. "data:[8,3,224,224]".',
    ),
]
TuningRecords = Annotated[
    list[Path] | None,
    typer.Option(
        "--tuning-records",
        metavar="FILE",
        help="Earlier tuning records to use; may be repeated.",
    ),
]
NoShipped = Annotated[
    bool, typer.Option("--no-shipped-records", help="Do not use the records that ship with autoq.")
]
Jobs = Annotated[
    int,
    typer.Option("--jobs", min=0, metavar="N", help="Compilers at once; 0: one a core."),
]
Registry = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="MODULE[:ATTRIBUTE]",
        help="Package of your own operators and templates, or a sequence of templates.",
    ),
]
Precision = Annotated[
    str | None,
    typer.Option(
        "--precision",
        metavar="NAME",
        help="residual8, residual4: float32 layers of constant weights run through integers; "
        "attention16-8, attention8-8, attention8-4: attention under sparse constant masks.",
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        "--threshold",
        metavar="T",
        help="Of --precision: what counts as large, 1 by default; 0: correct all; inf: nothing.",
    ),
]
Tolerance = Annotated[
    float | None,
    typer.Option(
        "--tolerance",
        metavar="X",
        help="Of --precision: relative error that each such layer may have on random inputs.",
    ),
]
Knowledge = Annotated[
    Path | None,
    typer.Option(
        "--knowledge", metavar="FILE", help="Model of `autoq logs train`, before those shipped."
    ),
]
Device = Annotated[int, typer.Option("--device", min=0, metavar="N", help="Number of the GPU.")]

_SHAPE = re.compile(r"\s*([^\[\]]+?)\s*:\s*\[([\d\s,]*)\]\s*,?")


def host_of(target: str, hardware: Path | None, device: int = 0) -> str | Host:
    """The target as it is, or where a file has its GPU's figures the host with them."""
    if hardware is None:
        return target
    from autoq.devices import resolve

    return resolve(target, device, hardware)


def registry_option(registry: str | None) -> dict[str, str]:
    """The keyword that says where templates are looked up; none for those that autoq has."""
    return {} if registry is None else {"registry": registry}


def load_operators(registry: str | None) -> None:
    """Import the operators of a registry, so that records of them can be read."""
    if registry is not None:
        from autoq.measure.job import load_registry

        load_registry(registry)


def parse_shapes(text: str | None) -> dict[str, tuple[int, ...]] | None:
    """Shapes by input name from `name:[1,3,224,224] other:[1]`; InputError for other text."""
    if text is None:
        return None
    shapes: dict[str, tuple[int, ...]] = {}
    position = 0
    while position < len(text.rstrip()):
        found = _SHAPE.match(text, position)
        if found is None:
            raise InputError(
                f"--input-shapes {text!r}: cannot read {text[position:].strip()!r}; write it as "
                '"name:[1,3,224,224]", several with a space between'
            )
        if found[1] in shapes:
            raise InputError(f"--input-shapes {text!r}: {found[1]!r} stands there twice")
        shapes[found[1]] = tuple(int(size) for size in found[2].split(",") if size.strip())
        position = found.end()
    if not shapes:
        raise InputError('--input-shapes is empty; write it as "name:[1,3,224,224]"')
    return shapes


def parse_layouts(text: str) -> tuple[str, ...]:
    """Layouts by name from `nhwc,nhwcnc`, whatever the case; unknown names as they are."""
    from autoq.templates.arrays.layout import LAYOUTS

    names = {name.lower(): name for name in LAYOUTS}
    given = [name.strip() for name in text.split(",")]
    return tuple(dict.fromkeys(names.get(name.lower(), name) for name in given if name))


def kernel_cache() -> Path:
    """Folder of compiled kernels: AUTOQ_CACHE_DIR, else below XDG_CACHE_HOME or ~/.cache."""
    chosen = os.environ.get("AUTOQ_CACHE_DIR")
    if chosen:
        return Path(chosen) / "kernels"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "autoq" / "kernels"
