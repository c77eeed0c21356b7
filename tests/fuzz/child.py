"""Runs cases of one subject one after another, and reports each on a pipe: `python -m fuzz.child`.

A line of the report is a JSON array: ["start", case] before a case, ["end", case, finding or null]
after it. Standard output and error hold what the current case printed, nothing older.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import importlib
import itertools
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from fuzz.findings import Finding, from_exception

MEMORY_BYTES = 4 << 30


def rng_of(seed: int, case: int) -> np.random.Generator:
    """The generator that a case is drawn from."""
    return np.random.default_rng([seed, case])


def load(subject: str) -> ModuleType:
    """The subject's module: `fuzz.<subject>`, or a dotted name as it stands."""
    return importlib.import_module(subject if "." in subject else f"fuzz.{subject}")


def limit_memory(module: ModuleType) -> None:
    """Let this process allocate as much as the subject may, and no more."""
    limit = getattr(module, "MEMORY_BYTES", MEMORY_BYTES)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def run_case(module: ModuleType, seed: int, case: int) -> Finding | None:
    """Run one case in a new temporary folder, from which nothing is left."""
    folder = Path(tempfile.mkdtemp(prefix="case-"))
    try:
        module.case(rng_of(seed, case), folder)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit, and what TVM derives from it
        return from_exception(case, error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return None


def _run_cases(options: dict[str, Any], report: Callable[..., None]) -> None:
    """Run cases `first`, `first + stride`, ... below `stop` until the monotonic `deadline`.

    One case is run in any event, however long a busy machine takes to import the subject.
    """
    module = load(options["subject"])
    limit_memory(module)
    for case in itertools.count(options["first"], options["stride"]):
        late = case > options["first"] and time.monotonic() > options["deadline"]
        if late or case >= options["stop"]:
            return
        os.ftruncate(2, 0)
        report("start", case, getattr(module, "LIMIT_SECONDS", None))
        finding = run_case(module, options["seed"], case)
        report("end", case, finding and dataclasses.asdict(finding))


def main() -> None:
    """Options come as one JSON object, the pipe's number within."""
    options = json.loads(sys.argv[1])
    faulthandler.enable()
    with os.fdopen(options["pipe"], "w", buffering=1) as pipe:
        _run_cases(options, lambda *line: pipe.write(json.dumps(line) + "\n"))


if __name__ == "__main__":
    main()
