"""Measures residual-compensated products beside the figures of the paper that they are from.

A table is a list of cases, each a row of the output with its device, date and commit. Rows of
cases that are measured replace those of the output file, which is written after every row;
`--missing` leaves out the cases that it has, so that an interrupted run goes on.

- accuracy: errors and densities over thresholds and sizes, of matrices of five distributions, by
  the numpy reference (figures 6 and 8 and the accuracies of table 5).
- qr, lenet: Householder QR and a small LeNet whose products are replaced (tables 6 and 7). LeNet
  needs scikit-learn and torch.
- speed: kernels of `--target` over matrices of a forced density, in turn with peers: numpy's
  float32 on the CPU (table 4), and on a GPU cuBLAS and cuBLASLt through torch (table 3).
- real_speed, lenet_speed: over the distributions (the speed-ups of table 5) and the LeNet's data.
- crossover: the density at which a sparse side takes as long as a whole one.
- stages: the time of each stage of a kernel (figure 7).

A kernel is compared with the reference before it is timed. Times on the CPU are the least of many
in turn, since other work may run beside them; with TVM_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 they
are CPU time, to which other work adds least.

    python scripts/bench/bench_residual.py --tables accuracy,qr,lenet
    python scripts/bench/bench_residual.py --tables speed,stages --target cuda --sizes 8192
    python scripts/bench/residual/plots.py scripts/results/residual_cpu.json
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from processor import cpu_in_words
from residual import accuracy, factorisation, lenet, lenet_speed, paper, speed, stages
from residual.kernels import Compiler
from residual.rows import Case, earlier_rows, merged, write

from autoq.devices import require_device, resolve
from autoq.errors import AutoqError

sys.path.insert(0, str(Path(__file__).parents[1]))
from checkout import commit

TABLES: dict[str, Callable[[argparse.Namespace], Sequence[Case]]] = {
    "accuracy": lambda options: accuracy.cases(options.sizes or accuracy.SIZES),
    "qr": lambda options: factorisation.cases(*(options.sizes or (factorisation.SIZE,))[:1]),
    "lenet": lambda options: lenet.cases(),
    "speed": lambda options: speed.masked_cases(_compiler(options), options.sizes),
    "real_speed": lambda options: speed.real_cases(_compiler(options), options.sizes),
    "lenet_speed": lambda options: lenet_speed.cases(_compiler(options)),
    "crossover": lambda options: speed.crossover_cases(_compiler(options), options.sizes),
    "stages": lambda options: stages.cases(_compiler(options), options.sizes),
}
"""What gives the cases of each table, in the order of the output."""

IN_NUMPY = ("accuracy", "qr", "lenet")
"""The tables that no target computes."""

RESULTS = Path("scripts/results")


def _compiler(options: argparse.Namespace) -> Compiler:
    """The one compiler of all tables."""
    if options.compiler is None:
        host = resolve(options.target)
        require_device(host)
        options.compiler = Compiler(host, options.records, options.cache)
    return options.compiler


def chosen(options: argparse.Namespace) -> list[Case]:
    """The cases of the tables whose name contains what is asked for; SystemExit for none."""
    unknown = [table for table in options.tables if table not in TABLES]
    if unknown or not options.tables:
        found = ", ".join(unknown) or "no table"
        raise SystemExit(f"--tables: found {found}; choose of {', '.join(TABLES)}")
    cases = [case for table in options.tables for case in TABLES[table](options)]
    wanted = [case for case in cases if options.cases in case.name]
    if not wanted:
        names = ", ".join(case.name for case in cases)
        raise SystemExit(f"--cases {options.cases!r}: is a part of none of {names}")
    return wanted


def run(options: argparse.Namespace) -> None:
    """Measure the cases, and write the results after each."""
    rows = earlier_rows(options.output)
    known = {(row["table"], row["case"]) for row in rows} if options.missing else set()
    cases = [case for case in chosen(options) if (case.table, case.name) not in known]
    if options.compiler is not None:
        options.compiler.prepare(workload for case in cases for workload in case.workloads)
    for case in cases:
        start = time.perf_counter()
        row = {
            "table": case.table, "case": case.name, "device": _device(case, options),
            "date": datetime.date.today().isoformat(), "commit": options.commit,
            **case.measure(),
        }  # fmt: skip
        rows = merged(rows, row, list(TABLES))
        write(options.output, rows, paper.printed())
        print(f"{case.table}: {case.name} in {time.perf_counter() - start:.1f} s", flush=True)


def _device(case: Case, options: argparse.Namespace) -> str:
    """What a row was measured on, in words."""
    host = resolve(options.target)
    if case.table in IN_NUMPY or host.target.kind == "cpu":
        return cpu_in_words()
    return f"{host.device} (driver {host.driver})"


def _sizes(text: str) -> tuple[int, ...]:
    sizes = tuple(int(part) for part in text.split(",") if part.strip())
    if not sizes or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: comma-separated sizes of 1 or more")
    return sizes


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", default="accuracy,qr", metavar="NAMES",
                        type=lambda text: [part.strip() for part in text.split(",") if part],
                        help=f"comma-separated, of {', '.join(TABLES)}")  # fmt: skip
    parser.add_argument("--sizes", type=_sizes, help="comma-separated; by default the table's own")
    parser.add_argument("--cases", default="", help="a part of the names of cases")
    parser.add_argument("--missing", action="store_true",
                        help="leave out cases that the output has")  # fmt: skip
    parser.add_argument("--target", default="cpu", help="of the kernels that are timed")
    parser.add_argument("--records", type=Path, nargs="*", default=[],
                        help="tuning records besides those that ship")  # fmt: skip
    parser.add_argument("--cache", type=Path, help="folder of compiled kernels, for reuse")
    parser.add_argument("--output", type=Path, help="JSON to bring up to date; by default "
                        "residual_cpu.json or residual_h200.json in scripts/results")  # fmt: skip
    parser.add_argument("--commit", default=commit(), help="recorded with each row")
    parser.set_defaults(compiler=None)
    options = parser.parse_args(arguments)
    if options.output is None:
        stem = "residual_h200" if options.target.startswith("cuda") else "residual_cpu"
        options.output = RESULTS / f"{stem}.json"
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    try:
        run(options)
    except (AutoqError, lenet.MissingPackages) as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
