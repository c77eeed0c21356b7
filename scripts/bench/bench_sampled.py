"""Times sampled products over 96 masks beside cuBLASLt's dense ones: Magicube's figure 15.

    python scripts/bench/bench_sampled.py --prepare --target cuda:sm_90a --work build/sampled
    python scripts/bench/bench_sampled.py --work build/sampled --output sampled_h200.json

Masks have the shapes of pruned layers, 16 of each sparsity, with uneven rows, each scalar a vector.
Kernels are untuned. Every element of an output is compared before a time counts, which is the
median over replays of a CUDA graph. `--prepare` compiles, packs and computes what outputs must be,
without a GPU. Rows of an output that is there stay, but for those of cases that are measured anew,
and `--rest` takes the cases that it lacks. The output's `means` are geometric, of how many times as
fast as the dense product of float16 a type is. `--plot` draws them and needs matplotlib.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import math
import sys
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from cases.sampled_collection import OUTPUTS, SampledCase, sampled_collection
from checkout import commit
from compared_cases.row_lines import text_of
from sparse_products.kernels import SparseJob, measure, prepare

from autoq.devices import require_device, resolve
from autoq.errors import AutoqError
from autoq.libraries.byte_products import ByteProducts
from autoq.libraries.float_products import FloatProducts
from autoq.measure.job import Timing
from autoq.runtime.cuda.driver import Device
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import matching
from autoq.templates.target import Target

_TIMING = Timing(repeat=5, min_seconds=5e-4, budget_seconds=0.01)
DENSE = ("float16", "int8")
"""Types of cuBLASLt's products that are timed."""


class Dense:
    """cuBLASLt's dense products of the extents of cases, each timed once."""

    def __init__(self) -> None:
        self._floats, self._bytes = FloatProducts(), ByteProducts()
        self._found: dict[tuple[int, int, int], dict[str, float]] = {}

    def times(self, case: SampledCase) -> dict[str, float]:
        """Microseconds by type; one that cuBLASLt refuses is left out."""
        work = case.workload
        extents = (work.m, work.n, work.k)
        if extents not in self._found:
            products = (
                (self._floats, FloatGemm(*extents, weight_dtype="float16")),
                (self._bytes, Gemm(*extents)),
            )
            found = {}
            for name, (library, product) in zip(DENSE, products, strict=True):
                try:
                    found[f"dense_{name}_us"] = library.measure(product, _TIMING).seconds * 1e6
                except AutoqError as error:
                    print(f"{extents} {name}: {error}", flush=True)
            self._found[extents] = found
        return self._found[extents]


def measured(cases: Sequence[SampledCase], options: argparse.Namespace) -> dict[str, Any]:
    """Rows of all cases that are prepared, and means over them."""
    host = resolve("cuda")
    require_device(host)
    dense, by_name = Dense(), {case.name: case for case in cases}
    heading = {
        "device": host.device, "driver": host.driver, "date": str(datetime.date.today()),
        "commit": commit(),
    }  # fmt: skip
    kept, rows = kept_rows(options.output, heading, by_name), []
    folder, store = options.work / "cases", options.work / "kernels"
    for row in measure(list(enumerate(cases)), folder, store, Device(0), host.target, _TIMING):
        case = by_name[row["case"]]
        own = {key: row[key] for key in ("case", "sparsity", "us", "failure")}
        of_run = {"date": heading["date"], "commit": heading["commit"]}
        rows.append({**own, "dtype": case.workload.a_dtype, **dense.times(case), **of_run})
        if len(rows) % len(OUTPUTS) == 0:
            result = {**heading, "means": means(kept + rows), "rows": kept + rows}
            options.output.write_text(text_of(result))
    for row in means(kept + rows):
        print(row)
    return {**heading, "means": means(kept + rows), "rows": kept + rows}


def kept_rows(
    path: Path, heading: Mapping[str, Any], measured: Container[str]
) -> list[dict[str, Any]]:
    """The rows of a file that is there, each with its day and commit, but for measured cases.

    Raises SystemExit for a file of another device.
    """
    if not path.exists():
        return []
    held = json.loads(path.read_text())
    if held["device"] != heading["device"]:
        raise SystemExit(f"{path} is of {held['device']}, this device is {heading['device']}")
    of_file = {name: held[name] for name in ("date", "commit")}
    return [{**of_file, **row} for row in held["rows"] if row["case"] not in measured]


def jobs_of(number: int, case: SampledCase, target: Target) -> list[SparseJob]:
    """The default of the first template."""
    template = matching(case.workload, target)[0]
    return [SparseJob(number, template.name, template.default(case.workload, target))]


def means(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """How many times as fast as cuBLASLt's float16, by type and sparsity; None: of all."""
    found = []
    for sparsity in (None, *sorted({row["sparsity"] for row in rows})):
        chosen = [row for row in rows if sparsity in (None, row["sparsity"]) and row["us"]]
        ratios = {
            dtype: [r["dense_float16_us"] / r["us"] for r in chosen if r["dtype"] == dtype]
            for dtype in OUTPUTS
        }
        ratios["dense int8"] = [
            r["dense_float16_us"] / r["dense_int8_us"]
            for r in chosen
            if r["dtype"] == "int8" and "dense_int8_us" in r
        ]
        for name, each in ratios.items():
            if each:
                mean = math.exp(sum(map(math.log, each)) / len(each))
                found.append({
                    "sparsity": sparsity, "dtype": name, "matrices": len(each),
                    "times_as_fast_as_dense_float16": round(mean, 3),
                    "least": round(min(each), 3), "most": round(max(each), 3),
                })  # fmt: skip
    return found


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Write a PNG of the means by sparsity."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [row for row in result["means"] if row["sparsity"] is not None]
    sparsities = sorted({row["sparsity"] for row in rows})
    names = list(dict.fromkeys(row["dtype"] for row in rows))
    figure, axis = pyplot.subplots(figsize=(8, 4))
    width = 0.8 / len(names)
    for number, name in enumerate(names):
        own = {r["sparsity"]: r["times_as_fast_as_dense_float16"] for r in rows
               if r["dtype"] == name}  # fmt: skip
        places = [sparsities.index(sparsity) + number * width for sparsity in own]
        axis.bar_label(axis.bar(places, list(own.values()), width, label=name), fmt="%.2g",
                       fontsize=6)  # fmt: skip
    axis.axhline(1, color="grey", linewidth=0.7)
    axis.set_xticks([i + 0.4 - width / 2 for i in range(len(sparsities))], sparsities)
    axis.set_xlabel("sparsity of the mask")
    axis.set_ylabel("times as fast as cuBLASLt, float16, dense")
    masks = max(row["matrices"] for row in result["means"] if row["sparsity"] is None)
    axis.set_title(f"sampled products over {masks} masks; {result['device']}, {result['date']}",
                   fontsize=9)  # fmt: skip
    axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("build/sampled"))
    parser.add_argument("--prepare", action="store_true", help="stop before a GPU is needed")
    parser.add_argument("--target", default="cuda:sm_90a", help="of --prepare")
    parser.add_argument("--processes", type=int, default=2, help="of --prepare")
    parser.add_argument("--cases", default="", help="part of the names")
    parser.add_argument("--rest", action="store_true", help="cases that the output lacks")
    parser.add_argument("--k", type=int, default=256)
    parser.add_argument("--vector", type=int, default=8)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    cases = [c for c in sampled_collection(options.k, options.vector) if options.cases in c.name]
    if options.rest and options.output is not None and options.output.exists():
        there = {row["case"] for row in json.loads(options.output.read_text())["rows"]}
        cases = [case for case in cases if case.name not in there]
    if options.prepare:
        target = resolve(options.target).target
        folder, store = options.work / "cases", options.work / "kernels"
        of_case = functools.partial(jobs_of, target=target)
        for line in prepare(cases, of_case, folder, target, store, options.processes):
            print(line)
        return
    if options.output is None:
        parser.error("--output: name the JSON file")
    if options.plot:
        draw(json.loads(options.output.read_text()), options.plot)
        return
    options.output.write_text(text_of(measured(cases, options)))


if __name__ == "__main__":
    main()
