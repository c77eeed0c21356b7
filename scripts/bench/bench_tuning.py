"""Whether a short tuning run makes a model slower, and whether it keeps its time budget.

Each network is tuned by `autoq tune --time-budget` in a process of its own, without shipped
records, then compiled untuned, with the records of that run and, with --shipped, with those that
ship, all at once, and the artifacts are timed in turn. Their outputs are compared at every element
first; what a cut leaves unfinished stands in the output with its trials and without times. With
--knowledge the search begins with another model of records than the shipped one, such
as one that has seen none of a network's shapes; with --tuners strategies tune in turn. Writes the
times as JSON.

    python scripts/bench/bench_tuning.py --target cuda --budgets 10,30 --output tuning.json
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autoq import Session
from autoq.devices import Host, require_device, resolve
from autoq.records.lines import read_records
from autoq.scratch import scratch_folder, sweep
from autoq.search.registry import DEFAULT_STRATEGY

sys.path.insert(0, str(Path(__file__).parents[1]))
from checkout import commit
from make_model import NETWORKS, make_network

IMAGE = 224
INPUT = "input"
ALLOWED_SLOWER, ALLOWED_OVERRUN = 1.02, 1.05
"""A ratio of times above the first is a regression, one above the second a budget not kept."""
_TRIALS = 100_000  # more than any budget of this script pays for
_TURNS = 15
_TURN_SECONDS = 0.05


@dataclass(frozen=True)
class Tuning:
    """A run of `autoq tune`.

    budget: seconds; knowledge: the model of records that it begins with, None for the shipped one;
    tuner: the strategy.
    """

    budget: float
    seed: int
    knowledge: Path | None = None
    tuner: str = DEFAULT_STRATEGY


def tuned(
    model: Path, host: Host, shape: tuple[int, ...], tuning: Tuning, records: Path
) -> float:  # fmt: skip
    """Tune into the file `records`: wall seconds of the command."""
    options = {
        "--target": host.target.kind,
        "--input-shapes": f"{INPUT}:[{','.join(map(str, shape))}]",
        "--trials": _TRIALS,
        "--output": records,
        "--time-budget": tuning.budget,
        "--until-gain": 0,
        "--seed": tuning.seed,
        "--tuner": tuning.tuner,
        **({} if tuning.knowledge is None else {"--knowledge": tuning.knowledge}),
    }
    command = [sys.executable, "-m", "autoq", "tune", str(model), "--no-shipped-records"]
    command += [str(part) for option in options.items() for part in option]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - started
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return seconds


@dataclass(frozen=True)
class Folders:
    """Where artifacts, record files and compiled kernels go."""

    artifacts: Path
    records: Path
    kernels: Path


def compiled(
    model: Path, host: Host, shape: tuple[int, ...], wanted: dict[str, list[str]], folders: Folders
) -> list[Session]:
    """A session for each list of options of `autoq compile`, which run beside each other."""
    return [Session(one) for one in artifacts_of(model, host, shape, wanted, folders)]


def artifacts_of(
    model: Path, host: Host, shape: tuple[int, ...], wanted: dict[str, list[str]], folders: Folders
) -> list[Path]:
    """An artifact for each list of options of `autoq compile`, which run beside each other."""
    start = [sys.executable, "-m", "autoq", "compile", str(model), "--target", host.target.kind]
    start += ["--input-shapes", f"{INPUT}:[{','.join(map(str, shape))}]"]
    environment = {**os.environ, "AUTOQ_CACHE_DIR": str(folders.kernels)}
    artifacts = {name: folders.artifacts / f"{model.stem}.{name}.tar" for name in wanted}
    running = {
        name: subprocess.Popen(
            [*start, "-o", str(artifacts[name]), *options], env=environment, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )
        for name, options in wanted.items()
    }  # fmt: skip
    for name, process in running.items():
        _, errors = process.communicate()
        if process.returncode:
            raise SystemExit(f"{model}: compiling {name} ended with {process.returncode}: {errors}")
    return list(artifacts.values())


def in_turn(sessions: list[Session]) -> list[float]:
    """Median microseconds of each, timed in turn."""
    repeats = [max(1, round(_TURN_SECONDS / session.run_seconds(3))) for session in sessions]
    samples: list[list[float]] = [[] for _ in sessions]
    for _ in range(_TURNS):
        for session, repeat, found in zip(sessions, repeats, samples, strict=True):
            found.append(session.run_seconds(repeat))
    return [statistics.median(found) * 1e6 for found in samples]


def case(
    network: str, model: Path, host: Host, batch: int, tuning: Tuning, folders: Folders,
    shipped: bool, keep: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:  # fmt: skip
    """Tune, compile, compare outputs, time all in turn; shipped: those with shipped records, too.

    A run whose records are there already is not made again. keep: takes the row as it is after
    tuning, without the times, which take half a minute more.
    """
    shape = (batch, 3, IMAGE, IMAGE)
    budget, seed, knowledge = tuning.budget, tuning.seed, tuning.knowledge
    records = folders.records / f"{network}-{tuning.tuner}-{budget:g}s-seed{seed}.jsonl"
    seconds = None
    if not records.exists():
        seconds = tuned(model, host, shape, tuning, records)
    lines = read_records(records).records if records.exists() else []
    row: dict[str, Any] = {
        "case": f"{network} N{batch} {host.target.kind}",
        "tuner": tuning.tuner,
        "budget_seconds": budget,
        "seed": seed,
        **({} if knowledge is None else {"knowledge": knowledge.name.split(".")[0]}),
        "wall_seconds": seconds,
        "trials": sum(not record.confirmed for record in lines),
    }
    keep(row)
    found = ["--tuning-records", str(records)] if records.exists() else []
    wanted = {"untuned": ["--no-shipped-records"], "tuned": ["--no-shipped-records", *found]}
    sessions = compiled(
        model, host, shape, {**wanted, **({"shipped": []} if shipped else {})}, folders
    )
    x = np.random.default_rng(1).standard_normal(shape, np.float32)
    outputs = [session.run(None, {INPUT: x})[0] for session in sessions]
    if not all(np.array_equal(outputs[0], output) for output in outputs):
        raise SystemExit(f"{network}: the tuned model computes something else")
    untuned_us, tuned_us, *beside = in_turn(sessions)
    return {
        **row,
        "untuned_us": untuned_us,
        "tuned_us": tuned_us,
        **({"shipped_us": beside[0]} if beside else {}),
        "slower": tuned_us > ALLOWED_SLOWER * untuned_us,
        "over_budget": seconds is not None and seconds > ALLOWED_OVERRUN * budget,
    }


def _text(row: dict[str, Any]) -> str:
    return (
        f"{row['case']} {row['tuner']} {row['budget_seconds']:g} s, seed {row['seed']}: "
        f"{row['untuned_us']:.1f} us untuned, {row['tuned_us']:.1f} tuned"
        + (f", {row['shipped_us']:.1f} with shipped records" if "shipped_us" in row else "")
        + f"; {row['trials']} trials"
        + (f" in {row['wall_seconds']:.1f} s" if row["wall_seconds"] else "")
    )


def known_networks(parser: argparse.ArgumentParser, names: str) -> list[str]:
    """Networks that `make_model` makes, of names separated by commas; ends the program else."""
    networks = names.split(",")
    if unknown := set(networks) - set(NETWORKS):
        parser.error(f"unknown networks: {', '.join(sorted(unknown))}")
    return networks


def heading(host: Host, commit_here: str) -> dict[str, Any]:
    """What the results of a run begin with, without a case yet."""
    date = datetime.date.today().isoformat()
    return {"device": host.device, "date": date, "commit": commit_here, "cases": []}


def main() -> int:
    """1 if any model got slower or any budget was not kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--networks", default="efficientnet_b0,shufflenet_v2,resnet18")
    parser.add_argument("--batch", type=int, default=4, help="images (4)")
    parser.add_argument("--budgets", default="30", help="seconds, separated by commas")
    parser.add_argument("--seeds", type=int, default=2, help="runs of each (2)")
    parser.add_argument("--tuners", default=DEFAULT_STRATEGY, help="names, separated by commas")
    parser.add_argument("--models", type=Path, default=Path("build/models"))
    parser.add_argument("--records", type=Path, help="folder of record files, which are kept")
    parser.add_argument("--cache", type=Path, help="folder of kernels that are compiled already")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--shipped", action="store_true", help="time shipped records as well")
    parser.add_argument("--knowledge", type=Path, help="model of records that searches begin with")
    parser.add_argument("--commit", default=commit(), help="recorded in the output")
    options = parser.parse_args()
    host = resolve(options.target)
    require_device(host)
    networks = known_networks(parser, options.networks)
    result = heading(host, options.commit)

    def write(rows: list[dict[str, Any]]) -> None:
        options.output.write_text(json.dumps({**result, "cases": rows}, indent=1) + "\n")

    sweep()
    with scratch_folder() as folder:
        folders = Folders(folder, options.records or folder, options.cache or folder / "kernels")
        folders.records.mkdir(parents=True, exist_ok=True)
        for network in networks:
            model = make_network(network, IMAGE, options.models)
            for budget in map(float, options.budgets.split(",")):
                runs = itertools.product(range(options.seeds), options.tuners.split(","))
                for seed, tuner in runs:
                    tuning = Tuning(budget, seed, options.knowledge, tuner)
                    row = case(
                        network, model, host, options.batch, tuning, folders, options.shipped,
                        lambda begun: write([*result["cases"], begun]),
                    )  # fmt: skip
                    result["cases"].append(row)
                    write(result["cases"])
                    print(_text(row), flush=True)
    return int(any(row["slower"] or row["over_budget"] for row in result["cases"]))


if __name__ == "__main__":
    raise SystemExit(main())
