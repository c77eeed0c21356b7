"""The ablation of the paper's section 4 on the four 3x3 stages of int8 ResNet-50, batch 8.

Every bar is conv2d_mma_sync with some of its knobs restricted (`ablation_variants.py`), tuned for
itself with the same number of trials: the accumulated and the marginal speed-up of the
duplicate-aware load, of packing in registers and of the NHWCnc layout (figures 15 and 16). Table
1 beside them: TVM's MetaSchedule with as many trials (on request), the tile knobs around the best
configuration measured exhaustively, and the search over the whole space. Writes the numbers as
JSON and the figures as PNG; `--tuned FILE` takes the bars of an earlier run, to which it may add
MetaSchedule, and `--plot FILE` only draws.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from ablation_plot import draw
from ablation_report import bars_text, case_row, table_text
from ablation_tuning import exhaustive, tune_bars
from ablation_variants import SEARCHED, VARIANTS
from checkout import commit
from peers.layer import layer_of
from peers.peer import PeerTime
from peers.worker import METASCHEDULE, PEERS, PeerProcesses

from autoq.devices import Host, require_device, resolve
from autoq.measure.job import Timing
from autoq.records.journal import Journal
from autoq.search.registry import DEFAULT_STRATEGY
from autoq.templates.workload import Conv2d
from autoq.tuner import device_measurer, make_asker
from autoq.tuning.options import TuneOptions

_STAGES = ((56, 64), (28, 128), (14, 256), (7, 512))
_REGISTRY = "ablation_variants:TEMPLATES"
_PREPARE_SECONDS, _TRIAL_SECONDS = 300.0, 10.0


def stages(batch: int) -> dict[str, Conv2d]:
    """The 3x3 convolutions of the four stages by name."""
    return {
        f"N{batch} 3x3 {size}x{size}x{channels}": Conv2d(
            batch, size, size, channels, channels, 3, 3, padding=(1, 1, 1, 1)
        )
        for size, channels in _STAGES
    }


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
            yield {"metaschedule_us": us, "metaschedule": what}
    finally:
        peer.close()


def tuned(options: argparse.Namespace, host: Host) -> dict[str, Any]:
    """Every bar, and the exhaustive column of the table, of every stage."""
    started = time.perf_counter()
    workloads = chosen(stages(options.batch_size), options.cases)
    settings = TuneOptions(
        trials=options.trials * len(workloads) * len(VARIANTS),
        trials_per_task=options.trials,
        tuner=options.tuner,
        seed=options.seed,
        cache_dir=options.cache,
        registry=_REGISTRY,
    )
    with tempfile.TemporaryDirectory(prefix="autoq-") as scratch:
        journal = Journal(options.records or Path(scratch) / "ablation.jsonl")
        measurer = device_measurer(host, settings, Path(scratch))
        asker = make_asker(host, settings, local=False)
        try:
            bars = tune_bars(
                workloads, host.target, settings, options.batch, asker, measurer, journal
            )
            tables = {
                name: exhaustive(
                    workload, host.target, bars[name][SEARCHED.name], measurer, options.exhaustive
                )
                for name, workload in workloads.items()
            }
            device = measurer.device
        finally:
            asker.close()
            measurer.close()
    return {
        "device": device.name,
        "driver": device.driver,
        "cuda": device.cuda,
        "date": datetime.date.today().isoformat(),
        "commit": options.commit,
        "trials": options.trials,
        "tuner": options.tuner,
        "seed": options.seed,
        "seconds": round(time.perf_counter() - started, 1),
        "cases": [case_row(name, bars[name], tables[name]) for name in workloads],
    }


def earlier(path: Path, host: Host) -> dict[str, Any]:
    """The results of an earlier run, which must be of the same device."""
    result: dict[str, Any] = json.loads(path.read_text())
    if result["device"] != host.device:
        raise SystemExit(f"{path} was tuned on {result['device']}; this is {host.device}")
    return result


def add_metaschedule(result: dict[str, Any], options: argparse.Namespace) -> None:
    """MetaSchedule's time in the table of each chosen case of the results, written case by case."""
    tables = {case["case"]: case["table"] for case in result["cases"]}
    known = stages(options.batch_size)
    workloads = chosen({name: known[name] for name in tables}, options.cases)
    result["metaschedule_trials"] = options.metaschedule
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
    parser.add_argument("--trials", type=int, default=32, help="of each bar")
    parser.add_argument("--batch", type=int, default=16, help="trials between two models")
    parser.add_argument("--tuner", default=DEFAULT_STRATEGY)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--exhaustive", type=int, default=48, metavar="N",
                        help="members of the sub-space measured whole, at most")  # fmt: skip
    parser.add_argument("--metaschedule", type=int, default=0, metavar="TRIALS",
                        help="also tune each case with TVM's MetaSchedule")  # fmt: skip
    parser.add_argument("--cache", type=Path, help="folder of compiled kernels, for reuse")
    parser.add_argument("--records", type=Path, help="keep every trial in this record file")
    parser.add_argument("--output", type=Path, default=Path("scripts/results/ablation_h200.json"))
    parser.add_argument("--tuned", type=Path, metavar="RESULTS",
                        help="take the bars of an earlier run")  # fmt: skip
    parser.add_argument("--plot", type=Path, metavar="RESULTS",
                        help="only draw the figures of an earlier run, beside it")  # fmt: skip
    parser.add_argument("--commit", default=commit(), help="recorded in the output")
    return parser.parse_args()


def main() -> None:
    options = parse()
    if options.plot:
        draw(json.loads(options.plot.read_text()), options.plot.with_suffix(".png"))
        return
    host = resolve(options.target)
    require_device(host)
    result = earlier(options.tuned, host) if options.tuned else tuned(options, host)
    save(result, options.output)
    if options.metaschedule:
        add_metaschedule(result, options)
    for figure in ("accumulated", "marginal"):
        print(bars_text(result["cases"], figure))
    print(table_text(result["cases"]))
    try:
        draw(result, options.output.with_suffix(".png"))
    except ImportError as error:
        raise SystemExit(f"no figures: {error}; install matplotlib, then --plot") from error


if __name__ == "__main__":
    main()
