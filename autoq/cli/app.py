"""The command line's entry point."""

from __future__ import annotations

import logging
import sys
from typing import Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from autoq import __version__
from autoq.cli import compare_search, compile, env, gemm, logs, prune, quantize, record, run, tune
from autoq.cli.memory_limit import require_memory
from autoq.errors import AutoqError
from autoq.process.blame import machines_fault
from autoq.runtime.cpu.threads import use_every_core

HELP = ["--help", "-h"]


class _Commands(TyperGroup):
    """The commands; Ctrl-C aborts one, where Typer would make it an exit without a word."""

    def invoke(self, ctx: typer.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise typer.Abort from error


app = typer.Typer(
    name="autoq",
    cls=_Commands,
    help="Find and compile low-precision tensor-core kernels for quantised ONNX models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": HELP},
)
app.command("prune")(prune.prune)
app.command("quantize")(quantize.quantize)
app.command("tune")(tune.tune)
app.command("gemm")(gemm.gemm)
app.command("record")(record.record)
app.command("compare-search")(compare_search.compare_search)
app.command("compile")(compile.compile)
app.command("run")(run.run)
app.command("env")(env.env)
app.add_typer(logs.app, name="logs")


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"autoq {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", help="Print the version.", is_eager=True, callback=_print_version
    ),
) -> None:
    if not {*HELP} & {*sys.argv}:
        require_memory(context.invoked_subcommand)


class _Warnings(logging.Handler):
    """Prints what autoq warns of, a line each."""

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(f"autoq: {record.getMessage()}", err=True)


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr and exit code 2."""
    use_every_core()
    logger = logging.getLogger("autoq")
    logger.handlers[:] = [_Warnings(logging.WARNING)]
    logger.setLevel(logging.WARNING)  # whatever the root's level, which `quantize` raises
    # Names of files may be bytes that are no text; a stream that is closed is None.
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.reconfigure(errors="backslashreplace")
    try:
        code = app(standalone_mode=False)
    except AutoqError as error:
        _fail(" ".join(str(error).split()))
    except TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help text
            typer.echo(error.format_message())
            sys.exit(2)
        _fail(f"{error.format_message()} (see {_command(error)} --help)")
    except (typer.Abort, KeyboardInterrupt):
        typer.echo("autoq: interrupted", err=True)
        sys.exit(130)
    except OSError as error:  # a full disk, a folder that vanished
        _fail(f"{error.filename or 'the operating system'}: {error.strerror or error}")
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        if not machines_fault(text):
            raise
        _fail(text)
    sys.exit(code if isinstance(code, int) else 0)


def _command(error: TyperException) -> str:
    """The command whose words were wrong, as a user types it."""
    context = getattr(error, "ctx", None)
    names: list[str] = []
    while context is not None and context.parent is not None:
        names.insert(0, str(context.info_name))
        context = context.parent
    return " ".join(("autoq", *names))


def _fail(message: str) -> None:
    typer.echo(f"autoq: {message}", err=True)
    sys.exit(2)
