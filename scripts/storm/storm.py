"""A storm of kills over `autoq tune`: the same command must go on each time, and end well.

A small network is tuned again and again by one command, while its process, its workers and their
compilers are killed at random moments, ended politely, starved of memory, or killed several at
once as by the kernel's out-of-memory killer. A round ends when the command does; then
    - every trial that was on the disk before a kill is there, and no line is damaged,
    - each failure of a candidate is one again when it is measured in peace,
    - no process lives on, and the temporary directory is empty.

    python scripts/storm/storm.py --kills 100
    python scripts/storm/storm.py --kills 30 --target cuda --folder /tmp/storm
"""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from storm_checks import Checks
from storm_victims import KINDS, strike

from autoq.models.writer import ModelWriter
from autoq.quantization.quantize import quantize

# Some kills come after any time, so that they hit the start as well; the others after a number of
# new records, which come in batches, and a moment more.
_ANY_TIME, _MOST_SECONDS = 0.4, 5.0
_MOST_RECORDS, _MOMENT_SECONDS = 24, 1.0
# How often the command may end by itself with one line and code 2 before the storm gives up.
_MOST_STOPS = 10


def small_network(folder: Path) -> Path:
    """An int8 network of three convolutions and a classifier, as ONNX."""
    writer = ModelWriter(np.random.default_rng(0))
    x = writer.conv("input", 3, 16, 3, name="conv1")
    x = writer.conv(x, 16, 32, 3, stride=2, name="conv2")
    x = writer.conv(x, 32, 64, 3, name="conv3")
    writer.classifier(x, 64, 10)
    plain, quantised = folder / "storm.onnx", folder / "storm.int8.onnx"
    onnx.save(writer.model("storm", batch=1, image=16, classes=10), str(plain))
    images = np.random.default_rng(1).standard_normal((2, 3, 16, 16)).astype(np.float32)
    np.savez(folder / "images.npz", input=images)
    quantize(plain, folder / "images.npz", quantised)
    return quantised


@dataclass
class Storm:
    """The command that is killed, and what was done to it so far."""

    options: argparse.Namespace
    model: Path
    rng: np.random.Generator
    kills: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    stops: list[str] = field(default_factory=list)

    @property
    def over(self) -> bool:
        return self.kills.total() >= self.options.kills

    def round(self, folder: Path) -> Checks:
        """Start the command until it ends by itself with every trial made."""
        folder.mkdir()
        records = folder / "records.jsonl"
        checks = Checks(records, folder / "tmp", self.options.target)
        checks.temporary.mkdir()
        while True:
            code, output = self._run(folder, checks)
            checks.after_a_run(output)
            if code == 0:
                break
            if code == 2 and len(output.errors.splitlines()) == 1:
                self.stops.append(output.errors.strip())
                print(f"  it stopped: {self.stops[-1]}", flush=True)
                if len(self.stops) > _MOST_STOPS:
                    checks.complain("the command stopped too often")
                    break
            elif code >= 0:
                checks.complain(f"exit code {code}: {output.errors[-2000:]}")
                break
        checks.after_a_round()
        return checks

    def _run(self, folder: Path, checks: Checks) -> tuple[int, Output]:
        """One start of the command, killed or not: its exit code and what it printed."""
        self.starts += 1
        environment = {
            **os.environ,
            "TMPDIR": str(checks.temporary),
            "AUTOQ_CACHE_DIR": str(folder / "cache"),
            checks.mark[0]: checks.mark[1],
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        command = [sys.executable, "-m", "autoq", "tune", str(self.model)]
        command += ["-o", str(checks.records), "--target", self.options.target]
        command += ["--trials", str(self.options.trials), "--tuner", "random", "--until-gain", "0"]
        with (folder / "out").open("w+") as out, (folder / "err").open("w+") as err:
            process = subprocess.Popen(command, env=environment, stdout=out, stderr=err)
            end = time.monotonic() + self.options.most_seconds
            while process.poll() is None and time.monotonic() < end:
                self._wait(process, checks, end)
                if process.poll() is None and not self.over:
                    self._strike(process, checks)
            if process.poll() is None:
                checks.complain(f"a run did not end within {self.options.most_seconds:g} s")
                process.kill()
            code = process.wait()
            out.seek(0), err.seek(0)
            return code, Output(out.read(), err.read())

    def _wait(self, process: subprocess.Popen[bytes], checks: Checks, latest: float) -> None:
        """Until the next kill is due, the command has ended, or it is the `latest` time."""
        seconds = self.rng.uniform(0, _MOST_SECONDS)
        if self.rng.random() > _ANY_TIME:
            wanted = checks.lines + int(self.rng.integers(1, _MOST_RECORDS))
            while process.poll() is None and checks.lines < wanted and time.monotonic() < latest:
                time.sleep(0.02)
            seconds = self.rng.uniform(0, _MOMENT_SECONDS)
        end = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)

    def _strike(self, process: subprocess.Popen[bytes], checks: Checks) -> None:
        kind = str(self.rng.choice(list(KINDS), p=list(KINDS.values())))
        victims = strike(kind, process.pid, self.rng)
        if victims:
            self.kills[kind] += 1
            total = self.kills.total()
            print(f"kill {total}: {kind} {victims}, {checks.lines} records", flush=True)
        if kind == "tuner":
            process.wait()


@dataclass(frozen=True)
class Output:
    """What a run printed."""

    text: str
    errors: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=128, help="of the command, so of a round")
    parser.add_argument("--folder", type=Path, help="where to work; default: a temporary one")
    parser.add_argument("--most-seconds", type=float, default=300.0, help="of one run")
    options = parser.parse_args()
    logging.getLogger().setLevel(logging.ERROR)  # onnxruntime's advice
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="storm-", dir=options.folder) as name:
        folder = Path(name)
        storm = Storm(options, small_network(folder), np.random.default_rng(options.seed))
        rounds: list[Checks] = []
        while not storm.over and not any(checks.complaints for checks in rounds):
            print(f"round {len(rounds) + 1}", flush=True)
            rounds.append(storm.round(folder / f"round{len(rounds) + 1}"))
    complaints = [text for checks in rounds for text in checks.complaints]
    kinds = ", ".join(f"{count} {kind}" for kind, count in storm.kills.most_common())
    print(f"{storm.kills.total()} kills ({kinds}) in {len(rounds)} rounds, {storm.starts} starts, "
          f"{time.monotonic() - started:.0f} s; {sum(c.trials for c in rounds)} records, "
          f"{sum(c.failures for c in rounds)} failures of candidates; stopped by itself "
          f"{len(storm.stops)} times")  # fmt: skip
    for text in complaints:
        print(f"WRONG: {text}")
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
