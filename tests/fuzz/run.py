"""Fuzzes subjects for a time, cases drawn from a seed: `python -m fuzz.run SECONDS`, in tests/."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from fuzz.child import limit_memory, load, rng_of
from fuzz.findings import Finding
from fuzz.lane import Lane, Shift

SUBJECTS = ("models", "graphs", "blocks", "floats", "records", "artifacts", "npz")
_SHOWN_LIKE_IT = 3
_HEARTBEAT_SECONDS = 60.0


class Tally:
    """Cases and findings of one subject; lanes report to it from their threads."""

    def __init__(self, subject: str, seed: int, say: Callable[[str], None]) -> None:
        self.subject, self._seed, self._say = subject, seed, say
        self.cases = 0
        self.findings: Counter[tuple[str, str, str]] = Counter()
        self._lock = threading.Lock()

    def add(self, finding: Finding | None) -> None:
        """Count a case; the first findings of each defect are shown at once."""
        with self._lock:
            self.cases += 1
            if finding is None:
                return
            self.findings[finding.defect] += 1
            if self.findings[finding.defect] > _SHOWN_LIKE_IT:
                return
            self._say(f"{self.subject} {finding}")
            self._say(
                f"    again: scripts/fuzz.sh --subject {self.subject} --seed {self._seed} "
                f"--case {finding.case}"
            )


def fuzz(subject: str, seed: int, stop: int, seconds: float, jobs: int, folder: Path) -> Tally:
    """Run a subject's cases below `stop` for `seconds`, in `jobs` processes."""
    tally = Tally(subject, seed, lambda text: print(text, flush=True))
    deadline = time.monotonic() + seconds
    shifts = [Shift(subject, seed, first, jobs, stop, deadline) for first in range(jobs)]
    lanes = [Lane(shift, folder, tally.add) for shift in shifts]
    threads = [threading.Thread(target=lane.run) for lane in lanes]
    try:
        for thread in threads:
            thread.start()
        said = time.monotonic()
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.1)
            if time.monotonic() - said > _HEARTBEAT_SECONDS:
                said = time.monotonic()
                print(f"{subject}: {tally.cases} cases so far", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        for lane in lanes:
            lane.stop()
        raise
    return tally


def once(subject: str, seed: int, case: int) -> int:
    """Run one case in this process, which shows its traceback, or dies as the case did."""
    module = load(subject)
    limit_memory(module)
    with tempfile.TemporaryDirectory(prefix="case-") as folder:
        try:
            module.case(rng_of(seed, case), Path(folder))
        except Exception:
            traceback.print_exc()
            return 1
    print(f"{subject} case {case}: no finding")
    return 0


def main() -> int:
    """0 without findings, 1 with some, 130 when interrupted."""
    options = _parser().parse_args()
    subjects = options.subject or [name for name in SUBJECTS if _exists(name)]
    with tempfile.TemporaryDirectory(prefix="autoq-fuzz-") as folder:
        # Cases leave their folders here, and two processes share the kernels they compile.
        os.environ["TMPDIR"] = folder
        os.environ.setdefault("AUTOQ_CACHE_DIR", f"{folder}/cache")
        os.environ.setdefault("TVM_NUM_THREADS", "1")
        os.environ.setdefault("PYTHONHASHSEED", "0")
        paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        if options.case is not None:
            return max(once(subject, options.seed, options.case) for subject in subjects)
        return _fuzz_all(options, subjects, Path(folder))


def _fuzz_all(options: argparse.Namespace, subjects: list[str], folder: Path) -> int:
    end = time.monotonic() + options.seconds
    name = f"seed {options.seed}"
    print(f"{name:<12}{'cases':>8}{'per s':>8}{'findings':>10}{'defects':>9}", flush=True)
    tallies = []
    try:
        for number, subject in enumerate(subjects):
            start = time.monotonic()
            share = max(0.0, end - start) / (len(subjects) - number)
            stop = options.cases if options.cases is not None else sys.maxsize
            tally = fuzz(subject, options.seed, stop, share, options.jobs, folder)
            tallies.append(tally)
            _print_row(subject, [tally], time.monotonic() - start)
    except KeyboardInterrupt:
        print("interrupted")
        return 130
    _print_row("total", tallies, time.monotonic() - end + options.seconds)
    return int(any(tally.findings for tally in tallies))


def _print_row(name: str, tallies: Sequence[Tally], seconds: float) -> None:
    cases = sum(tally.cases for tally in tallies)
    findings = sum(tally.findings.total() for tally in tallies)
    defects = sum(len(tally.findings) for tally in tallies)
    print(f"{name:<12}{cases:>8}{cases / seconds:>8.1f}{findings:>10}{defects:>9}", flush=True)


def _exists(subject: str) -> bool:
    return Path(__file__).with_name(f"{subject}.py").is_file()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/fuzz.sh", description=__doc__)
    parser.add_argument("seconds", type=float, nargs="?", default=60.0, metavar="SECONDS",
                        help="for all subjects together (60)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, help="what cases are drawn from (1)")
    parser.add_argument("--subject", action="append", metavar="NAME",
                        help=f"{', '.join(SUBJECTS)}; may be repeated (all)")  # fmt: skip
    parser.add_argument("--cases", type=int, metavar="N", help="end a subject after N cases")
    parser.add_argument("--case", type=int, metavar="K", help="run this case alone, in the open")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at once (2)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
