"""`autoq logs`: what record files hold, and merging, checking and exporting them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autoq.cli.options import Output
from autoq.errors import InputError

app = typer.Typer(help="List, merge, check and export tuning records.", no_args_is_help=True)

Files = Annotated[list[Path], typer.Argument(metavar="FILES", help="Record files (JSON lines).")]


@app.command("list")
def list_(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILES", help="Record files; default: those that ship."),
    ] = None,
) -> None:
    """Print what each file holds, by device."""
    from autoq.records.database import shipped_records
    from autoq.records.journal import read_records
    from autoq.report.records import files_table

    lines = [read_records(path) for path in files] if files else shipped_records()
    typer.echo(files_table(lines))


@app.command()
def best(files: Files) -> None:
    """Print the fastest record by workload and template."""
    from autoq.records.journal import read_records
    from autoq.records.transform import best_records
    from autoq.report.records import best_table

    records = [record for path in files for record in read_records(path).records]
    typer.echo(best_table(best_records(records)))


@app.command()
def merge(
    files: Files,
    output: Output,
    best_only: Annotated[
        bool, typer.Option("--best-only", help="Keep the fastest of each workload only.")
    ] = False,
) -> None:
    """Write the distinct records of several files to one."""
    from autoq.records.transform import merge as merge_files

    count = merge_files(files, output, best_only)
    typer.echo(f"wrote {count} records to {output}")


@app.command()
def check(files: Files) -> None:
    """Check that every line is a record.

    Exit code 1 when one is not.
    """
    from autoq.records.transform import check as check_file

    sound = True
    for path in files:
        result = check_file(path)
        sound &= result.sound
        failures = sum(result.failures.values())
        state = "sound" if result.sound else "damaged"
        typer.echo(f"{path}: {state}, {result.records} records, {failures} failed trials, "
                   f"{result.repeated} repeated")  # fmt: skip
        for reason in result.rejected:
            typer.echo(f"  {reason}")
        if result.torn:
            typer.echo("  torn last line (a writer was killed; the next one repairs it)")
    if not sound:
        raise typer.Exit(1)


@app.command()
def export(
    files: Files,
    output: Output,
    format: Annotated[str, typer.Option("--format", metavar="FORMAT", help="csv.")] = "csv",
) -> None:
    """Write records as a table for other programs."""
    from autoq.paths import require_writable
    from autoq.records.journal import read_records
    from autoq.records.transform import export_csv

    if format != "csv":
        raise InputError(f"--format {format!r}: csv is the format there is")
    require_writable(output)
    records = [record for path in files for record in read_records(path).records]
    output.write_text(export_csv(records))
    typer.echo(f"wrote {len(records)} records to {output}")
