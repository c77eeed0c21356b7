"""Recorded spaces from files to what strategies search in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from autoq.devices import Host, resolve
from autoq.errors import ConfigError, RecordError
from autoq.records.recorded_space import SUFFIX, RecordedWorkload, read_space
from autoq.search.recorded_space import RecordedSpace
from autoq.search.trial import Trial
from autoq.search.union import Candidate, UnionSpace
from autoq.templates.base import Template
from autoq.templates.target import Target

FOLDER = "spaces"
"""Folder of `autoq.tuning_logs` that recorded spaces ship in."""


@dataclass(frozen=True)
class Replayable:
    """A recorded space that can be searched.

    union: what `space` has recorded some candidates of, under the same codes. left_out: trials
    whose template or configuration there is no longer, by reason.
    """

    recorded: RecordedWorkload
    union: UnionSpace
    space: RecordedSpace[Candidate]
    measured: Mapping[Candidate, Trial[Candidate]]
    left_out: Counter[str]


def shipped_spaces() -> list[Path]:
    """The files of the recorded spaces that come with autoq, by name."""
    folder = Path(str(resources.files("autoq.tuning_logs"))) / FOLDER
    return sorted(folder.rglob(f"*{SUFFIX}")) if folder.is_dir() else []


def target_of(recorded: RecordedWorkload) -> Target:
    """The target of the device that a space was recorded on, which need not be here."""
    arch = recorded.device.arch
    host: Host = resolve("cpu" if not arch.startswith("sm_") else f"cuda:{arch}")
    return host.target


def load(path: Path, templates: Mapping[str, Template]) -> Replayable:
    """A recorded space, ready to be searched.

    Raises RecordError for a file that is none, or whose trials are all of other versions.
    """
    return prepare(read_space(path), templates, str(path))


def prepare(
    recorded: RecordedWorkload, templates: Mapping[str, Template], name: str = "recorded space"
) -> Replayable:
    """As `load`, of a space in hand."""
    target, workload = target_of(recorded), recorded.workload
    left_out: Counter[str] = Counter()
    names = dict.fromkeys(trial.template for trial in recorded.trials)
    spaces = {
        one: templates[one].space(workload, target)
        for one in names
        if one in templates and templates[one].matches(workload, target)
    }
    measured: dict[Candidate, Trial[Candidate]] = {}
    for trial in recorded.trials:
        if trial.template not in spaces:
            left_out[f"of template {trial.template}"] += 1
        elif trial.version != templates[trial.template].version:
            left_out[f"of {trial.template} version {trial.version}"] += 1
        else:
            try:
                config = spaces[trial.template].from_dict(trial.config)
            except ConfigError:
                left_out["no longer legal"] += 1
                continue
            candidate = Candidate(trial.template, config)
            measured[candidate] = Trial(candidate, trial.seconds, trial.failure)
    used = dict.fromkeys(candidate.template for candidate in measured)
    if not measured:
        raise RecordError(f"{name}: no trial is of a present template and version")
    union = UnionSpace({one: spaces[one] for one in used})
    return Replayable(recorded, union, RecordedSpace(union, measured), measured, left_out)
