"""`autoq logs`: what record files hold, and merging, checking and exporting them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autoq.cli.options import Output, Registry, load_operators
from autoq.errors import InputError

if TYPE_CHECKING:
    from autoq.records.lines import Lines
    from autoq.records.record import Record

app = typer.Typer(help="List, merge, check and export tuning records.", no_args_is_help=True)

Files = Annotated[list[Path], typer.Argument(metavar="FILES", help="Record files (JSON lines).")]


@app.command("list")
def list_(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILES", help="Record files; default: those that ship."),
    ] = None,
    registry: Registry = None,
) -> None:
    """Print what each file holds, by device."""
    load_operators(registry)
    from autoq.records.database import shipped_records
    from autoq.report.records import files_table

    typer.echo(files_table(_read(files) if files else shipped_records()))


@app.command()
def best(files: Files, registry: Registry = None) -> None:
    """Print the fastest record by workload and template."""
    load_operators(registry)
    from autoq.records.transform import best_records
    from autoq.report.records import best_table

    typer.echo(best_table(best_records(_records(_read(files)))))


@app.command()
def merge(
    files: Files,
    output: Output,
    best_only: Annotated[
        bool, typer.Option("--best-only", help="Keep the fastest of each workload only.")
    ] = False,
    registry: Registry = None,
) -> None:
    """Write the distinct records of several files to one."""
    load_operators(registry)
    from autoq.records.transform import merge as merge_files

    merged = merge_files(files, output, best_only)
    _tell_skipped(merged.files)
    typer.echo(f"wrote {merged.records} records to {output}")


@app.command()
def check(
    files: Files,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Write damaged files anew; the old ones stay as FILE.bak."),
    ] = False,
    registry: Registry = None,
) -> None:
    """Check that every line is a record of its candidate.

    Exit code 2 when one is not.
    """
    load_operators(registry)
    from autoq.records.check import check as check_file
    from autoq.report.records import check_text

    if repair:
        _repair(files)
        return
    found = []
    for path in files:
        found.append(check_file(path))
        typer.echo(check_text(found[-1]))
    if not all(one.sound for one in found):
        raise typer.Exit(2)


def _repair(files: Sequence[Path]) -> None:
    from autoq.records.check import repair as repair_file
    from autoq.report.records import repaired_text

    for path in files:
        typer.echo(repaired_text(path, repair_file(path)))


@app.command()
def export(
    files: Files,
    output: Output,
    format: Annotated[str, typer.Option("--format", metavar="FORMAT", help="csv.")] = "csv",
    registry: Registry = None,
) -> None:
    """Write records as a table for other programs."""
    load_operators(registry)
    from autoq.paths import require_other, require_writable
    from autoq.records.transform import export_csv
    from autoq.replace_file import replace_file

    if format != "csv":
        raise InputError(f"--format {format!r}: csv is the format there is")
    require_writable(output)
    require_other(output, *files)
    records = _records(_read(files))
    with replace_file(output) as file:
        file.write(export_csv(records).encode())
    typer.echo(f"wrote {len(records)} records to {output}")


def _read(files: Iterable[Path]) -> list[Lines]:
    """The files' records; stderr names those of which lines are not used."""
    from autoq.records.lines import read_records

    lines = [read_records(path) for path in files]
    _tell_skipped(lines)
    return lines


def _tell_skipped(files: Iterable[Lines]) -> None:
    from autoq.report.records import skipped_text

    for lines in files:
        if lines.skipped:
            typer.echo(f"autoq: {skipped_text(lines)}", err=True)


def _records(files: Iterable[Lines]) -> list[Record]:
    return [record for lines in files for record in lines.records]


@app.command("train")
def train(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILES", help="Record files and recorded spaces of one device."),
    ],
    output: Output,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the trees.")] = 0,
    registry: Registry = None,
) -> None:
    """Learn from records which configurations are fast.

    The model of them serves workloads without records: give it to `autoq compile` and `autoq tune`
    with --knowledge.
    """
    from autoq.knowledge.training import model_of
    from autoq.measure.job import REGISTRY, load_registry
    from autoq.paths import require_other, require_writable

    require_writable(output)
    require_other(output, *files)
    model = model_of(files, load_registry(registry or REGISTRY), seed)
    size = model.save(output)
    about = model.about
    typer.echo(
        f"{output}: {about.trials} trials of {about.workloads} workloads on {about.device}, "
        f"{size / 1024:.0f} KiB"
    )
