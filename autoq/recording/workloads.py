"""The workloads that `autoq record` is given: a model, a record file, or workloads as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from autoq.errors import InputError
from autoq.paths import content_of
from autoq.records.lines import read_records
from autoq.templates.base import Template
from autoq.templates.target import Target
from autoq.templates.workload import Workload
from autoq.templates.workload_key import from_dict
from autoq.tuning.prepare import model_workloads, tunable


def given_workloads(
    source: str | Path,
    target: Target,
    templates: Sequence[Template],
    input_shapes: Mapping[str, Sequence[int]] | None = None,
) -> list[Workload]:
    """The distinct workloads of a source, in its order, of a model those of its tasks.

    source is a workload as JSON has it, as in the `workload` of a record; or a file: `.json` with
    one workload or a list of them, `.jsonl` with records, or else an ONNX model.

    Raises InputError, RecordError or ModelError for what is none of these.
    """
    text = str(source).strip()
    if text.startswith("{"):
        return _from_json(text, "workload")
    path = Path(source)
    if path.suffix == ".jsonl":
        return list(dict.fromkeys(record.workload for record in read_records(path).records))
    if path.suffix == ".json":
        try:
            return _from_json(content_of(path).decode(), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: cannot be read: {error}") from error
    found = model_workloads(path, target, templates, input_shapes)
    return [one.workload for one, _ in tunable(found, templates, target)]


def _from_json(text: str, name: str) -> list[Workload]:
    try:
        found = json.loads(text)
        listed = found if isinstance(found, list) else [found]
        return list(dict.fromkeys(from_dict(one) for one in listed))
    except (ValueError, TypeError) as error:
        raise InputError(f"{name}: {error}") from error
