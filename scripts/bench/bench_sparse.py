"""Times sparse products on this machine beside dense ones and other libraries, in one run.

`--set` names the cases: `table` are products of equal rows, `pairs` such in every pair of types,
`layer` the layer of the paper's figures 11 and 12 in every pair of types, `model_layers` products
of the table as layers of a model, which sparse and dense kernels compute, `collection` 96 matrices
of pruned layers' shapes with 128, 256 and 512 columns on the right. A case runs with the untuned
default of every template, first of the one that is used untuned, the ablation of all knobs around
it (`--ablation`), configurations that are drawn (`--samples`) or named (`--knobs`) and, for each
combination of values of some knobs (`--each`), the one of least estimated time. Every element of an
output is compared before a time counts. Times are medians over replays of a CUDA graph.

`--prepare` compiles and packs everything into `--work` and stops, which needs no GPU; a run finds
there what is prepared and prepares the rest. Peers (`--peers`) are cuBLASLt's dense products of
int8 and of float16, and cuSPARSE's of a Blocked-ELL matrix with the same share of zeros, in blocks
of the vectors' rows and in those of `--blocks`; also Magicube's and vectorSparse's own kernels, of
checkouts of their repositories. The JSON is written as cases end, beside the
rows of an output that is there, of which those of what is measured anew go.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from cases.sparse_cases import SETS, SparseCase
from checkout import commit
from peers.vector_kernels import KERNELS
from sparse_products.candidates import add_options, jobs_of
from sparse_products.kernels import measure, prepare, records
from sparse_products.peers import PEERS, Peers

from autoq.devices import Host, require_device, resolve
from autoq.measure.job import Timing
from autoq.runtime.cuda.driver import Device
from autoq.templates.target import Target, parse_target

_TIMING = Timing(repeat=7, min_seconds=1e-3, budget_seconds=0.02)
_QUICK_TIMING = Timing(repeat=3, min_seconds=3e-4, budget_seconds=4e-3)
_WRITE_SECONDS = 2.0
"""Between two writes of the results so far."""


def parsed() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--target", default="cuda", help="with --prepare an arch, cuda:sm_90a")
    parser.add_argument("--set", default="table", help=f"of {', '.join(SETS)}, commas between")
    parser.add_argument(
        "--cases", default="", help="parts of names, semicolons between; $ ends a name"
    )
    add_options(parser)
    parser.add_argument("--blocks", default="32,64,128", help="of cuSPARSE, besides the vectors'")
    parser.add_argument("--peers", default="", help=f"of {', '.join(PEERS)}")
    parser.add_argument(
        "--quick-peers",
        action="store_true",
        help="peers less long, cuSPARSE only in its usually fastest order",
    )
    for name in KERNELS:
        parser.add_argument(f"--{name.replace('_', '-')}", type=Path, help="checkout of that peer")
    parser.add_argument("--work", type=Path, help="folder of what is prepared")
    parser.add_argument(
        "--kernel-store", type=Path, help="folder of machine code, in --work by default"
    )
    parser.add_argument("--prepare", action="store_true", help="prepare, measure nothing")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--records", type=Path, help="file to append tuning records to")
    parser.add_argument("--output", type=Path, required="--prepare" not in sys.argv)
    return parser.parse_args()


def prepared(options: argparse.Namespace, target: Target, work: Path) -> list[SparseCase]:
    """The cases, all of whose files are in the folder."""
    parts = options.cases.split(";")
    of_sets = [case for name in options.set.split(",") for case in SETS[name]()]
    cases = [case for case in of_sets if any(part in f"{case.name}$" for part in parts)]
    if not any(work.glob("*.case")):
        of_case = functools.partial(jobs_of, target=target, options=options)
        for line in prepare(cases, of_case, work, target, kernels_of(options, work), options.jobs):
            print(line, flush=True)
    return cases


def kernels_of(options: argparse.Namespace, work: Path) -> Path:
    """The folder of machine code."""
    return options.kernel_store or work / "kernels"


def heading(host: Host, options: argparse.Namespace, versions: dict[str, str]) -> dict[str, Any]:
    """What a file of results says of its run."""
    return {
        "device": str(host.device), "driver": host.driver, "date": str(datetime.date.today()),
        "commit": commit(), "set": options.set, "peers": versions,
    }  # fmt: skip


def kept_rows(path: Path, head: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a file that is there, each with its day and commit.

    Raises SystemExit for a file of another device.
    """
    if not path.exists():
        return []
    held = json.loads(path.read_text())
    if held["device"] != head["device"]:
        raise SystemExit(f"{path} is of {held['device']}, this device is {head['device']}")
    of_file = {name: held[name] for name in ("date", "commit")}
    return [{**of_file, **row} for row in held["rows"]]


def joined(kept: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All rows by case, the new ones first, of which a case's untuned choice is the first.

    Of two of the same kernel or peer of a case the new one.
    """

    def of(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["case"], row.get("peer"), row.get("template"), str(row.get("config"))

    new = set(map(of, rows))
    by_case: dict[str, list[dict[str, Any]]] = {}
    for row in (*rows, *(row for row in kept if of(row) not in new)):
        by_case.setdefault(row["case"], []).append(row)
    return [row for of_case in by_case.values() for row in of_case]


def main() -> None:
    options = parsed()
    with tempfile.TemporaryDirectory() as folder:
        work = options.work or Path(folder)
        if options.prepare:
            prepared(options, parse_target(options.target), work)
            return
        host = resolve(options.target)
        require_device(host)
        cases = prepared(options, host.target, work)
        device, names = Device(), [name for name in options.peers.split(",") if name]
        blocks = [int(size) for size in options.blocks.split(",") if size]
        timing = _QUICK_TIMING if options.quick_peers else _TIMING
        checkouts = {name: getattr(options, name) for name in KERNELS if name in names}
        if missing := [name for name, path in checkouts.items() if path is None]:
            raise SystemExit(f"peer {missing[0]}: name a checkout by the option of its name")
        quick = options.quick_peers
        peers = Peers(names, blocks, timing, quick, checkouts) if names else None
        head = heading(host, options, peers.versions if peers else {})
        kept, rows = kept_rows(options.output, head), []
        of_run = {name: head[name] for name in ("date", "commit")}
        written = time.monotonic()
        for number, case in enumerate(cases):
            own = list(
                measure(
                    [(number, case)], work, kernels_of(options, work), device, host.target, _TIMING
                )
            )
            found = own + list(peers.rows(case) if peers else ())
            rows += [{**row, **of_run} for row in found]
            print("\n".join(map(line_of, found)), flush=True)
            if number + 1 == len(cases) or time.monotonic() - written > _WRITE_SECONDS:
                options.output.write_text(
                    json.dumps({**head, "rows": joined(kept, rows)}, indent=1) + "\n"
                )
                written = time.monotonic()
            if options.records:
                with options.records.open("a") as file:
                    for record in records([case], own, host, _TIMING.repeat):
                        file.write(record.to_line() + "\n")


def line_of(row: dict[str, Any]) -> str:
    """What is printed of a row."""
    config = ",".join(f"{name}={value}" for name, value in row.get("config", {}).items())
    return (
        f"{row['us'] or float('nan'):9.2f} us  {row['case']}  "
        f"{row.get('peer') or row['template']} {config} "
        f"{row.get('what') or row.get('failure') or ''}"
    )


if __name__ == "__main__":
    main()
