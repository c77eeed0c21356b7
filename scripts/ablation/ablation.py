"""The ablation of the paper's section 4 on the four 3x3 stages of ResNet-50, batch 8.

Every bar is conv2d_mma_sync with some of its knobs restricted (`ablation_variants.py`), tuned for
itself with the same number of trials, and again with every seed: the accumulated and the marginal
speed-up of the duplicate-aware load, of packing in registers and of the NHWCnc layout (figures 15
and 16), for 8 and for 4 bits. Table 1 beside them: TVM's MetaSchedule (on request), the tile knobs
around the best configuration measured exhaustively, and the search over the whole space. Writes
the numbers as JSON and the figures as PNG. Trials are kept in the folder `--records`: a run that
ends before it is done, by `--time-budget` or by a kill, goes on where it stopped.
`--plot FILE` only draws.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
from ablation_plot import draw
from ablation_report import bars_text, case_row, table_text
from ablation_tuning import Bar, BarSearch, exhaustive, record_file
from ablation_variants import SEARCHED, VARIANTS
from checkout import commit
from peers.layer import layer_of
from peers.worker import METASCHEDULE, PEERS, PeerProcesses

from autoq.devices import Host, require_device, resolve
from autoq.libraries.ranking import PeerTime
from autoq.measure.job import Timing
from autoq.measure.measurer import Measurer
from autoq.records.journal import Journal
from autoq.scratch import scratch_folder, sweep
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.tuning.opening import device_measurer, make_asker
from autoq.tuning.options import TuneOptions

_STAGES = ((56, 64), (28, 128), (14, 256), (7, 512))
_BITS = (8, 4)
_REGISTRY = "ablation_variants:TEMPLATES"
_PREPARE_SECONDS, _TRIAL_SECONDS = 300.0, 10.0


def stages(batch: int, bits: int = 8) -> dict[str, Conv2d]:
    """The 3x3 convolutions of the four stages by name, all their arrays of so many bits."""
    dtype = f"int{bits}"
    epilogue = Epilogue(dtype)
    found = {}
    for size, channels in _STAGES:
        sizes = (batch, size, size, channels, channels, 3, 3)
        found[f"N{batch} 3x3 {size}x{size}x{channels} {dtype}"] = Conv2d(
            *sizes, padding=(1, 1, 1, 1), in_dtype=dtype, weight_dtype=dtype, epilogue=epilogue
        )
    return found


def all_stages(batch: int) -> dict[str, Conv2d]:
    """Those of 8 and of 4 bits, side by side."""
    sides = [stages(batch, bits).items() for bits in _BITS]
    return dict(itertools.chain.from_iterable(zip(*sides, strict=True)))


def chosen(workloads: Mapping[str, Conv2d], parts: str) -> dict[str, Conv2d]:
    """The convolutions whose name contains one of some comma-separated parts; all for none."""
    wanted = [part for part in parts.split(",") if part] or [""]
    found = {name: w for name, w in workloads.items() if any(part in name for part in wanted)}
    if not found:
        raise SystemExit(f"--cases {parts!r} names none of {', '.join(workloads)}")
    return found


def metaschedule(workloads: Sequence[Conv2d], trials: int) -> Iterator[dict[str, Any]]:
    """TVM's MetaSchedule on each workload: its time, or why there is none."""
    place, seconds = PEERS[METASCHEDULE], trials * _TRIAL_SECONDS
    peer = PeerProcesses(METASCHEDULE, place, {"trials": trials}, _PREPARE_SECONDS, seconds)
    try:
        layers = [layer_of(workload) for workload in workloads]
        (version,) = {ready.result() for ready in peer.prepare(layers)}
        for layer in layers:
            found = peer.measure(layer, Timing())
            if isinstance(found, PeerTime):
                us, what = found.seconds * 1e6, f"{found.what}; {version}"
            else:
                us, what = None, str(found)
            yield {"metaschedule_us": us, "metaschedule": what, "metaschedule_trials": trials}
    finally:
        peer.close()


def tune(options: argparse.Namespace, host: Host, result: dict[str, Any]) -> bool:
    """Add a row for every convolution that has none yet; whether all have one now."""
    deadline = time.monotonic() + (options.time_budget or float("inf"))
    have = {row["case"] for row in result["cases"]}
    wanted = chosen(all_stages(options.batch_size), options.cases)
    settings = TuneOptions(
        trials=options.trials,
        tuner=options.tuner,
        cache_dir=options.cache,
        registry=_REGISTRY,
    )
    sweep()
    with scratch_folder() as scratch:
        records = options.records or scratch
        records.mkdir(parents=True, exist_ok=True)
        measurer = device_measurer(host, settings, scratch)
        asker = make_asker(host, settings, local=False)
        numbers = itertools.count()
        try:
            search = BarSearch(
                asker, measurer, host.target, options.trials, options.batch,
                lambda: time.monotonic() >= deadline, lambda text: print(text, flush=True),
            )  # fmt: skip
            result |= {"driver": measurer.device.driver, "cuda": measurer.device.cuda}
            for name, workload in wanted.items():
                if name in have:
                    continue
                bars = make_bars(name, workload, options.seeds, records, numbers)
                if not search.run(bars):
                    return False
                row = finished(name, workload, bars, search, options.exhaustive)
                row |= {"date": datetime.date.today().isoformat(), "commit": options.commit}
                result["cases"].append(row)
                save(result, options.output)
        finally:
            asker.close()
            measurer.close()
    return True


def make_bars(
    name: str, workload: Conv2d, seeds: int, records: Path, numbers: Iterator[int]
) -> list[Bar]:
    """A bar for every variant and seed, without trials."""
    bars = []
    for seed in range(seeds):
        journal = Journal(record_file(records, name, seed))
        for variant in VARIANTS:
            laid_out = variant.workload(workload)
            bars.append(Bar(next(numbers), name, variant, laid_out, seed, journal))
    return bars


def finished(
    name: str, workload: Conv2d, bars: Sequence[Bar], search: BarSearch, limit: int
) -> dict[str, Any]:
    """The row of a convolution whose bars have their trials."""
    times = search.remeasured(bars)
    found: dict[str, dict[str, Any]] = {}
    for variant in VARIANTS:
        own = [(us, bar) for us, bar in zip(times, bars, strict=True) if bar.variant is variant]
        found[variant.name] = {
            "us": [us for us, _ in own],
            "searches": [bar.summary() for _, bar in own],
        }
    measurer: Measurer = search.measurer
    config = _best_config(found[SEARCHED.name])
    table = exhaustive(workload, search.target, config, measurer, limit)
    return case_row(name, found, table)


def _best_config(bar: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The configuration of the fastest of a bar's searches."""
    pairs = zip(bar["us"], bar["searches"], strict=True)
    right = [(us, search) for us, search in pairs if us is not None]
    return min(right, key=lambda pair: pair[0])[1]["config"] if right else None


def opened(options: argparse.Namespace, host: Host) -> dict[str, Any]:
    """The results that the output file holds already, or none.

    Raises SystemExit when they are of another device or of other settings.
    """
    settings = {
        "device": host.device, "tuner": options.tuner, "trials": options.trials,
        "seeds": options.seeds,
    }  # fmt: skip
    result: dict[str, Any] = {**settings, "cases": []}
    if not options.output.exists():
        return result
    earlier: dict[str, Any] = json.loads(options.output.read_text())
    for name, value in settings.items():
        if earlier.get(name) != value:
            raise SystemExit(
                f"{options.output} has {name} {earlier.get(name)!r}, not {value!r}; "
                "move it away or give another --output"
            )
    return earlier


def add_metaschedule(result: dict[str, Any], options: argparse.Namespace) -> None:
    """MetaSchedule's time in the table of each chosen 8-bit case, written case by case."""
    tables = {case["case"]: case["table"] for case in result["cases"]}
    known = stages(options.batch_size)
    here = {name: known[name] for name in tables if name in known}
    workloads = chosen(here, options.cases)
    peers = metaschedule(list(workloads.values()), options.metaschedule)
    for name, peer in zip(workloads, peers, strict=True):
        tables[name] |= peer
        print(f"{name}: MetaSchedule {peer}", flush=True)
        save(result, options.output)


def save(result: Mapping[str, Any], path: Path) -> None:
    """Write the results so far."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--batch-size", type=int, default=8, help="images of the convolutions")
    parser.add_argument("--cases", default="", help="comma-separated parts of names, e.g. 56x56")
    parser.add_argument("--trials", type=int, default=128, help="of each bar and seed")
    parser.add_argument("--seeds", type=int, default=3, help="searches of each bar")
    parser.add_argument("--batch", type=int, default=16, help="trials between two models")
    parser.add_argument("--tuner", default="diverse")
    parser.add_argument("--exhaustive", type=int, default=48, metavar="N",
                        help="members of the sub-space measured whole, at most")  # fmt: skip
    parser.add_argument("--time-budget", type=float, metavar="SECONDS",
                        help="start no further trials after this time")  # fmt: skip
    parser.add_argument("--metaschedule", type=int, default=0, metavar="TRIALS",
                        help="also tune each 8-bit case with TVM's MetaSchedule")  # fmt: skip
    parser.add_argument("--cache", type=Path, help="folder of compiled kernels, for reuse")
    parser.add_argument("--records", type=Path, metavar="FOLDER",
                        help="keep every trial there, and go on with those it holds")  # fmt: skip
    parser.add_argument("--output", type=Path, default=Path("scripts/results/ablation_h200.json"),
                        help="rows it holds already are kept")  # fmt: skip
    parser.add_argument("--plot", type=Path, metavar="RESULTS",
                        help="only draw the figures of an earlier run, beside it")  # fmt: skip
    parser.add_argument("--commit", default=commit(), help="recorded in the output")
    return parser.parse_args()


def show(result: Mapping[str, Any], output: Path) -> None:
    """Print bars and table, and draw the figures beside the output."""
    for figure in ("accumulated", "marginal"):
        print(bars_text(result["cases"], figure))
    print(table_text(result["cases"]))
    try:
        draw(result, output.with_suffix(".png"))
    except ImportError as error:
        raise SystemExit(f"no figures: {error}; install matplotlib, then --plot") from error


def main() -> None:
    options = parse()
    if options.plot:
        show(json.loads(options.plot.read_text()), options.plot)
        return
    host = resolve(options.target)
    require_device(host)
    result = opened(options, host)
    complete = tune(options, host, result)
    save(result, options.output)
    if options.metaschedule:
        add_metaschedule(result, options)
    if result["cases"]:
        show(result, options.output)
    if not complete:
        print("time is up; the same command goes on with the trials in --records")


if __name__ == "__main__":
    main()
