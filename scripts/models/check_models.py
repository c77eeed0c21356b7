"""Whether exported networks compile, and agree with onnxruntime segment by segment.

    python scripts/models/check_models.py build/models --cases 'swin.*' --forms float,int8,dynamic
    python scripts/models/check_models.py build/models --target cuda:sm_90a --keep build/artifacts
    python scripts/models/check_models.py build/models --target cuda --keep build/artifacts --run
    python scripts/models/check_models.py build/models --target cuda --output models_h200.json

`build/models` is what export_models.py wrote. A quantised model is compiled with its quantised
tensors as outputs; onnxruntime, every optimisation off, computes each segment from the tensors that
autoq wrote (`segments.py`), and none may be off by more than a step; with `--all` those within
attention too. Floats are compared whole. The model as it is, without further outputs, is compiled
too, and its mean error may be a quarter more than that of onnxruntime's own integer kernels. What
is compiled for a device that is here runs at once; for a GPU elsewhere artifacts are compiled alone
(`--keep`), and run there (`--run`). Each row
joins those of the result file as soon as it is known; a row of the same commit is not made again.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from differences import mean_error, relative_error, steps_off
from forms import NotMade, made
from segments import GIVEN, cut, tapped, taps

from autoq import Session, compile
from autoq.devices import Host, resolve
from autoq.errors import AutoqError
from autoq.session import Argument

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
from bench_cpu_models import onnxruntime_session, take_turns
from checkout import commit
from processor import cpu_in_words

FLOAT_TOLERANCE, HALF_TOLERANCE = 1e-4, 1e-2
"""Largest error of models of float32 and of float16, relative to the largest expected value."""
ALLOWED_MEAN = 0.03
"""Mean error of a quantised model, in units of the output's root mean square, that is not asked
whether onnxruntime's own integer kernels have it too."""
_FINE = ("agrees", "compiles", "onnxruntime fails")
_FAILURES = onnxruntime.capi.onnxruntime_pybind11_state
_ORACLE_FAILS = (_FAILURES.Fail, _FAILURES.InvalidGraph, _FAILURES.NotImplemented,
                 _FAILURES.RuntimeException, _FAILURES.InvalidArgument)  # fmt: skip


def oracle(model: onnx.ModelProto, fast: bool = False) -> onnxruntime.InferenceSession:
    """The model in onnxruntime with every optimisation off, or with all of them."""
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if fast else levels.ORT_DISABLE_ALL
    options.log_severity_level = 3
    content = model.SerializeToString()
    return onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])


class Written:
    """Outputs that a session on another machine wrote, in the shape of a session."""

    def __init__(self, path: Path) -> None:
        self._arrays = dict(np.load(path))

    def get_outputs(self) -> list[Argument]:
        """Every output, in the order in which they were written."""
        return [Argument(name, a.shape, str(a.dtype)) for name, a in self._arrays.items()]

    def run(self, names: None, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """What was written."""
        return list(self._arrays.values())


class Case:
    """One model in one form: what is compiled, and how its outputs are judged."""

    def __init__(self, plain: Path, form: str, everywhere: bool) -> None:
        self.name = f"{plain.stem}.{form}" if form != "float" else plain.stem
        if everywhere:
            self.name += ".all"
        arrays = np.load(plain.with_suffix(".npz"))
        self.feeds = {name: arrays[name] for name in arrays.files}
        self.path = made(plain, self.feeds, form)
        self.model = onnx.load(str(self.path))
        read = {value.name for value in self.model.graph.input}
        self.feeds = {name: array for name, array in self.feeds.items() if name in read}
        self.cuts = taps(self.model, everywhere)
        self.half = ".float16" in self.name
        imports = self.model.opset_import
        self.opset = next(entry.version for entry in imports if entry.domain in ("", "ai.onnx"))

    def compiled(self, host: Host, folder: Path, cache: Path) -> dict[str, Any]:
        """Compile it as it is and with its cut tensors as outputs; what the first report says."""
        started = time.perf_counter()
        report = compile(self.path, target=host, output=self.artifact(folder, host),
                         cache_dir=cache)  # fmt: skip
        seconds = time.perf_counter() - started
        if self.cuts:
            source = folder / f"{self.name}.tapped.onnx"
            onnx.save(tapped(self.model, [tap.name for tap in self.cuts]), str(source))
            try:
                output = self.artifact(folder, host, "tapped.")
                compile(source, target=host, output=output, cache_dir=cache)
            finally:
                source.unlink()
        return {
            "kernels": len(report.calls), "float_kernels": report.floats.floats,
            "leaves_integers": list(report.floats.leaves)[:5], "compile_seconds": round(seconds, 1),
        }  # fmt: skip

    def artifact(self, folder: Path, host: Host, prefix: str = "") -> Path:
        """Where its artifact lies, that of the tapped model behind a prefix."""
        return folder / f"{self.name}.{prefix}{host.target.kind}.tar"

    def judged(self, folder: Path, host: Host) -> dict[str, Any]:
        """Run its artifacts and compare them with onnxruntime."""
        row = self.whole(Session(self.artifact(folder, host)))
        return (
            row | self.segments(Session(self.artifact(folder, host, "tapped.")))
            if self.cuts
            else row
        )

    def times(self, path: Path, seconds: float) -> dict[str, Any]:
        """Medians of the process's CPU time, in turn with onnxruntime on as many threads."""
        threads = int(os.environ.get("TVM_NUM_THREADS") or os.cpu_count() or 1)
        session, peer = Session(path), onnxruntime_session(self.path, threads)
        works = {"autoq": session.run, "onnxruntime": peer.run}
        taken = take_turns(
            {name: lambda run=run: run(None, self.feeds) for name, run in works.items()}, seconds
        )
        own, theirs = (taken[name]["cpu_us_median"] for name in works)
        return {"threads": threads, "autoq_us": own, "onnxruntime_us": theirs}

    def whole(self, session: Session | Written) -> dict[str, Any]:
        """Outputs of the model as it is: floats element by element, others in the mean."""
        names = [value.name for value in session.get_outputs()]
        found = session.run(None, self.feeds)
        wanted = oracle(self.model).run(names, self.feeds)
        pairs = list(zip(found, wanted, strict=True))
        if not self.cuts:
            relative = max(relative_error(*pair) for pair in pairs)
            good = relative <= (HALF_TOLERANCE if self.half else FLOAT_TOLERANCE)
            return {"verdict": "agrees" if good else "differs", "relative_error": relative}
        other = oracle(self.model, fast=True).run(names, self.feeds)
        mean = max(mean_error(*pair) for pair in pairs)
        own = max(mean_error(*pair) for pair in zip(other, wanted, strict=True))
        good = mean <= max(ALLOWED_MEAN, 1.25 * own)
        return {
            "verdict": "agrees" if good else "differs", "mean_error": mean,
            "onnxruntime_error": own,
        }  # fmt: skip

    def segments(self, session: Session | Written) -> dict[str, Any]:
        """Every segment, given the tensors that the artifact itself wrote."""
        names = [value.name for value in session.get_outputs()]
        found = dict(zip(names, session.run(None, self.feeds), strict=True))
        ends = [value.name for value in self.model.graph.output]
        taken = {tap.name: found[tap.name] for tap in self.cuts}
        types = {name: (array.dtype, list(array.shape)) for name, array in taken.items()}
        last = oracle(cut(self.model, types))
        read = {value.name for value in last.get_inputs()}
        feeds = {**self.feeds, **{name + GIVEN: array for name, array in taken.items()}}
        wanted = last.run(
            [*taken, *ends], {name: array for name, array in feeds.items() if name in read}
        )
        off = {
            tap.name: steps_off(found[tap.name], expected, tap.floats)
            for tap, expected in zip(self.cuts, wanted, strict=False)
        }
        relative = max(
            relative_error(found[name], array)
            for name, array in zip(ends, wanted[len(taken) :], strict=True)
        )
        worst = max(off, key=off.__getitem__)
        good = off[worst] <= 1 and relative <= FLOAT_TOLERANCE
        return {
            **({} if good else {"verdict": "differs"}), "segments": len(off),
            "worst_steps": round(off[worst], 4), "worst_segment": worst,
            "relative_error": relative,
        }  # fmt: skip


def row_of(case: Case, host: Host, options: argparse.Namespace) -> dict[str, Any]:
    """Compile and run one case; a refusal or an error is its verdict."""
    row: dict[str, Any] = {"nodes": len(case.model.graph.node), "opset": case.opset}
    try:
        if not (options.run or options.given):
            row |= case.compiled(host, options.keep, options.cache)
        given = options.given and options.given / f"{case.name}.npz"
        if given and given.exists():
            row |= case.whole(Written(given))
            of_cuts = given.with_name(f"{case.name}.tapped.npz")
            if of_cuts.exists():
                row |= case.segments(Written(of_cuts))
        elif host.target.kind == "cpu" or options.run or host.device is not None:
            row |= case.judged(options.keep, host)
        else:
            row["verdict"] = "compiles"
        if options.seconds:
            row |= case.times(case.artifact(options.keep, host), options.seconds)
    except AutoqError as error:
        row |= {"verdict": "refused", "message": str(error)[:2000]}
    except _ORACLE_FAILS as error:
        row |= {"verdict": "onnxruntime fails", "message": str(error)[:500]}
    if host.target.kind == "cpu":
        for prefix in ("", "tapped."):
            case.artifact(options.keep, host, prefix).unlink(missing_ok=True)
    return row


def write(output: Path, rows: dict[str, dict[str, Any]], device: str) -> None:
    """All rows, those of each case beside each other."""
    output.parent.mkdir(parents=True, exist_ok=True)
    ordered = [rows[name] for name in sorted(rows)]
    output.write_text(json.dumps({"device": device, "cases": ordered}, indent=1) + "\n")


def options_of_command() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="what export_models.py wrote")
    parser.add_argument("--cases", default="*", help="patterns of file names without suffix")
    parser.add_argument("--forms", default="float,int8", help="float or a name of forms.FORMS")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--all", action="store_true", help="cut inside attention too")
    parser.add_argument("--keep", type=Path, help="where artifacts lie; the folder by default")
    parser.add_argument("--run", action="store_true", help="artifacts are there: only run them")
    parser.add_argument(
        "--given", type=Path, help="outputs that another machine wrote, npz, of tapped models too"
    )
    parser.add_argument("--again", action="store_true", help="cases of this commit too")
    parser.add_argument("--seconds", type=float, default=0.0, help="time each on a CPU for so long")
    parser.add_argument("--cache", type=Path, help="of compiled kernels")
    parser.add_argument("--output", type=Path, help="scripts/results/models_cpu.json by default")
    return parser.parse_args()


def main() -> int:
    options = options_of_command()
    host = resolve(options.target)
    options.keep = options.keep or options.folder
    options.keep.mkdir(parents=True, exist_ok=True)
    on_cpu = host.target.kind == "cpu"
    output = options.output or Path(__file__).parents[1] / "results" / "models_cpu.json"
    if not (options.output or on_cpu):
        sys.exit("name the file of a GPU's rows with --output, its device in the name")
    known = json.loads(output.read_text()) if output.exists() else {"cases": []}
    rows = {row["case"]: row for row in known["cases"]}
    device = cpu_in_words() if on_cpu else str(host.device)
    if options.given and "device" in known:
        device = known["device"]
    stamp = {"date": datetime.date.today().isoformat(), "commit": commit()}
    for plain in sorted(options.folder.glob("*.onnx")):
        if plain.name.endswith(".tapped.onnx"):
            continue
        patterns = options.cases.split(",")
        if not any(fnmatch.fnmatch(plain.stem, pattern) for pattern in patterns):
            continue
        for form in options.forms.split(","):
            if ".float16" in plain.stem and form != "float":
                continue
            name = f"{plain.stem}.{form}" if form != "float" else plain.stem
            name += ".all" if options.all else ""
            if rows.get(name, {}).get("commit") == stamp["commit"] and not options.again:
                continue
            try:
                row = row_of(Case(plain, form, options.all), host, options)
            except NotMade as error:
                row = {"verdict": "form not made", "message": str(error)[:500]}
            row = rows[name] = {"case": name, **stamp, **row}
            write(output, rows, device)
            said = row.get("message", f"{row.get('worst_steps')} steps at "
                           f"{row.get('worst_segment')}, {row.get('relative_error')}")  # fmt: skip
            print(f"{name}: {row['verdict']}, {said}", flush=True)
    return 0 if all(row["verdict"] in _FINE for row in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
