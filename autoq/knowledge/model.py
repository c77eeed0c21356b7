"""The model of what records teach: boosted trees and perceptrons, and what they were made of.

Its members predict the log of a configuration's time over the best of its workload. The file is
XGBoost's own JSON, compressed where its name ends in .xz; columns are its feature names,
perceptrons and all else stand in its attributes.
"""

from __future__ import annotations

import dataclasses
import json
import lzma
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autoq.errors import RecordError
from autoq.knowledge import trees
from autoq.knowledge.features import Columns
from autoq.knowledge.inputs import inputs_of
from autoq.knowledge.lessons import Lesson, all_columns, kind_of
from autoq.knowledge.perceptron import Examples, Perceptrons, perceptrons_of, trained_perceptron
from autoq.paths import content_of
from autoq.replace_file import replace_file
from autoq.templates.workload import Workload

if TYPE_CHECKING:
    import xgboost

# By this share of the deviation of what the members of a model say, a choice is doubted.
_DOUBT = 0.25

FORMAT = 2
LARGEST_BYTES = 1 << 20
"""The size of a compressed model that ships, at most."""

_XZ, _LARGEST_TEXT = b"\xfd7zXZ\x00", 1 << 26

LEAST_PROMISE = 1.06
"""How much faster than the untuned default a choice must promise to be, where a model does not say.

With less a choice is about as often wrong as right (`search/README.md`, on recorded spaces).
"""

# Of a workload, trials that each training takes; others change with the seed.
_MOST_TRIALS = 400
# Slow ones need not be told apart: a trial weighs exp(-_SLOWNESS * target), as a share of its
# workload's weight.
_SLOWNESS = 1.5
# Perceptrons of a model: they are right more often than its boosters, and each member counts alike.
_PERCEPTRONS = 8


@dataclass(frozen=True)
class About:
    """What a model was made of.

    device and arch: of the records; versions: of the templates, by name; trials and workloads:
    how many; failed: configurations that failed, each with its template; date of the newest record;
    decides: preferred templates of the workloads whose untuned choice the model makes, each with
    how much faster than the default that choice must promise to be (1.0 for any), None for all.
    kinds: of the workloads (`lessons.kind_of`), of no other than which a choice is made; None for
    any.
    """

    device: str
    arch: str
    versions: Mapping[str, int]
    trials: int
    workloads: int
    failed: Sequence[tuple[str, Mapping[str, Any]]]
    date: str
    decides: Mapping[str, float] | None = None
    kinds: Sequence[str] | None = None


class KnowledgeModel:
    """Predicts how much slower than a workload's best each configuration is, up to a constant.

    It says the mean of its members, which are boosters of trees and perceptrons.
    """

    def __init__(self, booster: xgboost.Booster, about: About, perceptrons: Perceptrons) -> None:
        self._booster, self._perceptrons = booster, perceptrons
        # A question is of some hundred configurations: threads take longer to begin than to end.
        self._booster.set_param({"nthread": 1})
        self.about = about
        self.columns = Columns(booster.feature_names or ())

    def but(self, **changes: Any) -> KnowledgeModel:
        """The same model with something else in its `about`."""
        return KnowledgeModel(
            self._booster, dataclasses.replace(self.about, **changes), self._perceptrons
        )

    def knows(self, template: str, version: int) -> bool:
        """Whether records of this version of a template taught it."""
        return self.about.versions.get(template) == version

    def least_promise(self, workload: Workload, preferred: str, version: int) -> float | None:
        """Log of what a choice must promise over the default of a workload's preferred template.

        None where the default is not the model's to replace.
        """
        if not self.knows(preferred, version):
            return None
        if self.about.kinds is not None and kind_of(workload) not in self.about.kinds:
            return None
        if self.about.decides is None:
            return math.log(LEAST_PROMISE)
        least = self.about.decides.get(preferred)
        return None if least is None else math.log(least)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Log of the time up to the workload's constant: float64 [n] of features [n, columns]."""
        return self.doubted(features)[0]

    def doubted(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`predict`, and the same with the doubt of a choice in it: float64 [n] each."""
        if not len(features):
            return np.empty(0), np.empty(0)
        found = np.concatenate(self.members(features))
        means = found.mean(axis=0)
        return means, means + _DOUBT * found.std(axis=0)

    def members(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What each booster says and what each perceptron does: float64 [members, n] each."""
        return trees.predictions(self._booster, features), self._perceptrons.predict(features)

    def save(self, path: Path) -> int:
        """Write the model; returns the file's bytes. Raises InputError where it cannot be."""
        about = {**vars(self.about), "format": FORMAT}
        perceptrons = json.dumps(self._perceptrons.to_dict())
        self._booster.set_attr(autoq=json.dumps(about), perceptrons=perceptrons)
        data = trees.needed(bytes(self._booster.save_raw("json")))
        if path.suffix == ".xz":
            data = lzma.compress(data, preset=9)
        with replace_file(path) as file:
            file.write(data)
        return len(data)


def load_model(path: str | os.PathLike[str]) -> KnowledgeModel:
    """The model that `KnowledgeModel.save` wrote; raises RecordError for anything else."""
    try:
        data = content_of(path)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror or error}") from error
    return parse_model(str(path), data)


def parse_model(name: str, data: bytes) -> KnowledgeModel:
    """`load_model` of bytes in hand."""
    import xgboost  # takes a second, which a compilation without a model need not spend

    try:
        if data.startswith(_XZ):
            data = lzma.LZMADecompressor().decompress(data, _LARGEST_TEXT)
        json.loads(data)
        booster = xgboost.Booster()
        booster.load_model(bytearray(data))
        fields = json.loads(booster.attr("autoq") or "{}")
        if fields.pop("format", None) != FORMAT:
            raise ValueError("it is none of autoq's, or of another format")
        written = json.loads(booster.attr("perceptrons") or "{}")
        perceptrons = perceptrons_of(written, len(booster.feature_names or ()))
        return KnowledgeModel(booster, About(**fields), perceptrons)
    except (
        lzma.LZMAError, ValueError, TypeError, LookupError, xgboost.core.XGBoostError
    ) as error:  # fmt: skip
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RecordError(f"{name}: no model of records ({text})") from error


def trained(
    lessons: Sequence[Lesson],
    device: str,
    arch: str,
    versions: Mapping[str, int],
    date: str,
    seed: int = 0,
    nthread: int = 1,
    decides: Mapping[str, float] | None = None,
) -> KnowledgeModel:
    """A model of some lessons, of one device; the same lessons and seed give the same model.

    decides: as in `About`.

    Raises RecordError for no lesson at all.
    """
    if not lessons:
        raise RecordError("nothing to learn from: no trial is of a present template and version")
    columns = all_columns(lessons)
    rng = np.random.default_rng(seed)
    kept = [one.rows(_MOST_TRIALS, rng) for one in lessons]
    learnt = list(zip(lessons, kept, strict=True))
    features = np.concatenate([one.matrix(columns)[rows] for one, rows in learnt])
    targets = np.concatenate([one.targets[rows] for one, rows in learnt])
    # Every workload counts alike, however many of its configurations were recorded.
    weights = np.concatenate(
        [own / own.sum() for own in (np.exp(-_SLOWNESS * one.targets[rows])
                                     for one, rows in learnt)]
    )  # fmt: skip
    weights /= weights.mean()
    places = np.repeat(np.arange(len(lessons)), [len(rows) for rows in kept])
    booster = trees.grown(columns.names, features, targets, weights, places, seed, nthread)
    inputs = inputs_of(columns.names, features)
    examples = Examples(
        inputs.of(features), targets.astype(np.float32), weights.astype(np.float32), places
    )
    perceptrons = Perceptrons(
        inputs,
        tuple(trained_perceptron(examples, _PERCEPTRONS * seed + i) for i in range(_PERCEPTRONS)),
    )
    used = {name for one in lessons for name in one.templates}
    about = About(
        device, arch, {name: versions[name] for name in sorted(used)},
        sum(len(one.seconds) for one in lessons), len(lessons),
        _failed(lessons), date,
        None if decides is None else dict(sorted(decides.items())),
        sorted({kind_of(one.workload) for one in lessons}),
    )  # fmt: skip
    return KnowledgeModel(booster, about, perceptrons)


def _failed(lessons: Sequence[Lesson]) -> list[tuple[str, dict[str, Any]]]:
    from autoq.search.knobs import plain_config

    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for one in lessons:
        for i in np.flatnonzero(~np.isfinite(one.seconds)).tolist():
            config = plain_config(one.configs[i])
            found.setdefault(f"{one.templates[i]} {config}", (one.templates[i], config))
    return list(found.values())
