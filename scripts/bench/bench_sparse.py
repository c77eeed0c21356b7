"""Times sparse products on this machine beside dense ones and other libraries, in one run.

`--set` names the cases: `table` are products of equal rows, `layer` the layer of the paper's
figures 11 and 12 in every pair of types, `collection` 96 matrices of pruned layers' shapes. A case
runs with the untuned default of every template, Magicube's way among them, the ablation of that
way's knobs (`--ablation`), `--samples` drawn configurations of the first template and those that
`--knobs` names. Every element of an output is compared before a time counts. Times are medians
over replays of a CUDA graph.

`--prepare` compiles and packs everything into `--work` and stops, which needs no GPU; a run finds
there what is prepared and prepares the rest. Peers (`--peers`) are cuBLASLt's dense products of
int8 and of float16, and cuSPARSE's of a Blocked-ELL matrix with the same share of zeros, in blocks
of the vectors' rows and at its fastest block. The JSON is written after every case.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from cases.sparse_cases import SETS, SparseCase
from checkout import commit
from peers.cusparse_blocked_ell import BlockedEll, BlockedProduct
from sparse_kernels import SparseJob, measure, prepare, records, variation

from autoq.devices import Host, require_device, resolve
from autoq.errors import AutoqError
from autoq.libraries.byte_products import ByteProducts
from autoq.libraries.float_products import FloatProducts
from autoq.measure.job import Timing
from autoq.runtime.cuda.driver import Device
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import matching
from autoq.templates.target import Target, parse_target

_TIMING = Timing(repeat=7, min_seconds=1e-3, budget_seconds=0.02)
_PEERS = ("int8", "float16", "blocked_ell_int8", "blocked_ell_float16")


def jobs_of(
    number: int, case: SparseCase, target: Target, options: argparse.Namespace
) -> list[Any]:
    """Every template's default; drawn and named configurations of the first; the ablation."""
    names = options.templates.split(",") if options.templates else None
    all_of_them = matching(case.workload, target)
    first, *others = [one for one in all_of_them if names is None or one.name in names]
    space = first.space(case.workload, target)
    configs = [first.default(case.workload, target)]
    named = (
        space.config_type(**{**vars(configs[0]), **each})
        for each in knob_lists(options.knobs)
        if each.keys() <= vars(configs[0]).keys()
    )
    configs += [config for config in named if config in space]
    configs += space.sample(np.random.default_rng(5), options.samples)
    jobs = [SparseJob(number, first.name, config) for config in dict.fromkeys(configs)]
    for other in others:
        own = other.space(case.workload, target)
        chosen = [other.default(case.workload, target)]
        if options.ablation and other.name == "spmm_online":
            pairs = itertools.product((False, True), (False, True))
            names = (dict(zip(("ahead", "padded"), pair, strict=True)) for pair in pairs)
            chosen += [own.config_type(**{**vars(chosen[0]), **each}) for each in names]
        jobs += [SparseJob(number, other.name, config) for config in dict.fromkeys(chosen)]
    return jobs


def knob_lists(text: str) -> list[dict[str, Any]]:
    """Configurations parted by semicolons, their knobs by commas: "columns=64,warps=16;parts=2"."""
    lists = []
    for part in filter(None, text.split(";")):
        pairs = (pair.split("=") for pair in part.split(","))
        lists.append({name: json.loads(value) for name, value in pairs})
    return lists


class Peers:
    """The libraries beside which cases are timed, each product once."""

    def __init__(self, names: Sequence[str], blocks: Sequence[int]) -> None:
        self._names, self._blocks = names, blocks
        self._bytes, self._floats, self._blocked = ByteProducts(), FloatProducts(), BlockedEll()
        self.versions = {"cublasLt": self._bytes.version, "cusparse": self._blocked.version}
        self._found: dict[Any, tuple[float | None, str]] = {}

    def rows(self, case: SparseCase) -> Iterator[dict[str, Any]]:
        """A row for each peer of a case, with the way that it took or why it has none."""
        workload = case.workload
        extents = (workload.m, workload.n, workload.k)
        sparsity = (
            case.sparsity or 1 - workload.structure.blocks / workload.vector_rows / workload.k
        )
        for name in self._names:
            if name in ("int8", "float16"):
                product: Any = (
                    Gemm(*extents)
                    if name == "int8"
                    else FloatGemm(*extents, weight_dtype="float16")
                )
                yield self._row(case, name, product)
            else:
                dtype = name.removeprefix("blocked_ell_")
                for block in dict.fromkeys((workload.vector, *self._blocks)):
                    blocked = BlockedProduct(*extents, block, round(sparsity, 3), dtype)
                    yield self._row(case, f"{name} {block}", blocked)

    def _row(self, case: SparseCase, name: str, product: Any) -> dict[str, Any]:
        if product not in self._found:
            library = {Gemm: self._bytes, FloatGemm: self._floats}.get(type(product), self._blocked)
            try:
                time = library.measure(product, _TIMING)
                self._found[product] = (time.seconds * 1e6, time.what)
            except AutoqError as error:
                self._found[product] = (None, str(error))
        us, what = self._found[product]
        return {"case": case.name, "sparsity": case.sparsity, "peer": name, "us": us, "what": what}


def parsed() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--target", default="cuda", help="with --prepare an arch, cuda:sm_90a")
    parser.add_argument("--set", default="table", choices=SETS)
    parser.add_argument("--cases", default="", help="parts of names, semicolons between")
    parser.add_argument("--samples", type=int, default=0)
    parser.add_argument("--knobs", default="", help=knob_lists.__doc__)
    parser.add_argument("--ablation", action="store_true")
    parser.add_argument("--templates", default="", help="names, commas between; default all")
    parser.add_argument("--blocks", default="32,64,128", help="of cuSPARSE, besides the vectors'")
    parser.add_argument("--peers", default="", help=f"of {', '.join(_PEERS)}")
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
    cases = [case for case in SETS[options.set]() if any(part in case.name for part in parts)]
    if not any(work.glob("*.case")):
        jobs = [job for i, case in enumerate(cases) for job in jobs_of(i, case, target, options)]
        for line in prepare(cases, jobs, work, target, kernels_of(options, work), options.jobs):
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
        peers = Peers(names, blocks) if names else None
        head = heading(host, options, peers.versions if peers else {})
        rows: list[dict[str, Any]] = []
        for number, case in enumerate(cases):
            about = {"variation": round(variation(case), 3)}
            own = measure(
                [(number, case)], work, kernels_of(options, work), device, host.target, _TIMING
            )
            rows += [row | about for row in own]
            rows += peers.rows(case) if peers else ()
            for row in rows:
                if row["case"] == case.name:
                    print(f"{row['us'] or float('nan'):9.2f} us  {case.name}  "
                          f"{row.get('peer') or row['template']} {row.get('config', '')} "
                          f"{row.get('what') or row.get('failure') or ''}", flush=True)  # fmt: skip
            options.output.write_text(json.dumps({**head, "rows": rows}, indent=1) + "\n")
            if options.records:
                own = [row for row in rows if row["case"] == case.name]
                with options.records.open("a") as file:
                    for record in records([case], own, host, _TIMING.repeat):
                        file.write(record.to_line() + "\n")


if __name__ == "__main__":
    main()
