"""The model of what records teach: boosted trees in XGBoost's own JSON, and what they were made of.

Trees predict the log of a configuration's time over the best of its workload. The file is what
XGBoost writes, compressed where its name ends in .xz; columns are its feature names, all else
stands in its attributes.
"""

from __future__ import annotations

import json
import lzma
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autoq.errors import RecordError
from autoq.knowledge.features import Columns
from autoq.knowledge.lessons import Lesson, all_columns, kind_of
from autoq.paths import content_of
from autoq.replace_file import replace_file
from autoq.templates.workload import Workload

if TYPE_CHECKING:
    import xgboost

FORMAT = 1
LARGEST_BYTES = 1 << 20
"""The size of a compressed model that ships, at most."""

_XZ, _LARGEST_TEXT = b"\xfd7zXZ\x00", 1 << 26

LEAST_PROMISE = 1.06
"""How much faster than the untuned default a choice must promise to be, where a model does not say.

With less a choice is about as often wrong as right (`search/README.md`, on recorded spaces).
"""

# A model is the mean of several boosters, which differ by their seeds: of one alone, the order of a
# space's best depends more on the seed. Every other one sees nothing of the workload but what the
# features of its configurations say, so that what they disagree in is what shapes decide.
_MEMBERS = 8
_ROUNDS = 100
_OF_THE_WORKLOAD = "workload."
# Of a workload, trials that each training takes; others change with the seed.
_MOST_TRIALS = 400
_SETTINGS = {
    "max_depth": 6, "eta": 0.12, "min_child_weight": 4,
    "subsample": 0.8, "colsample_bytree": 0.5, "lambda": 1.0, "max_bin": 64, "base_score": 0.0,
    "verbosity": 0,
}  # fmt: skip


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
    """Predicts how much slower than a workload's best each configuration is, up to a constant."""

    def __init__(self, booster: xgboost.Booster, about: About) -> None:
        self._booster = booster
        # A question is of some hundred configurations: threads take longer to begin than to end.
        self._booster.set_param({"nthread": 1})
        self.about = about
        self.columns = Columns(booster.feature_names or ())

    def least_promise(self, workload: Workload, preferred: str, version: int) -> float | None:
        """Log of what a choice must promise over the default of a workload's preferred template.

        None where the default is not the model's to replace.
        """
        if self.about.versions.get(preferred) != version:
            return None
        if self.about.kinds is not None and kind_of(workload) not in self.about.kinds:
            return None
        if self.about.decides is None:
            return math.log(LEAST_PROMISE)
        least = self.about.decides.get(preferred)
        return None if least is None else math.log(least)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Log of the time up to the workload's constant: float64 [n] of features [n, columns]."""
        if not len(features):
            return np.empty(0)
        found = self._booster.inplace_predict(features, validate_features=False)
        return np.asarray(found, dtype=np.float64)

    def doubted(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`predict`, and the deviation of what the members say: float64 [n] each."""
        if not len(features):
            return np.empty(0), np.empty(0)
        rounds = self._booster.num_boosted_rounds()
        starts = range(0, rounds, _ROUNDS)
        found = np.array([
            self._booster.inplace_predict(
                features, iteration_range=(at, at + _ROUNDS), validate_features=False
            )
            for at in starts
        ], np.float64)  # fmt: skip
        return found.sum(axis=0), found.std(axis=0) * len(starts)

    def leaves(self, features: np.ndarray) -> np.ndarray:
        """The leaf of each tree, int32 [n, trees], of features [n, columns]."""
        import xgboost

        data = xgboost.DMatrix(features, feature_names=self._booster.feature_names, nthread=1)
        return (
            self._booster.predict(data, pred_leaf=True).astype(np.int32).reshape(len(features), -1)
        )

    def save(self, path: Path) -> int:
        """Write the model; returns the file's bytes. Raises InputError where it cannot be."""
        about = {**vars(self.about), "format": FORMAT}
        self._booster.set_attr(autoq=json.dumps(about))
        data = _needed(bytes(self._booster.save_raw("json")))
        if path.suffix == ".xz":
            data = lzma.compress(data, preset=9)
        with replace_file(path) as file:
            file.write(data)
        return len(data)


def _needed(data: bytes) -> bytes:
    """XGBoost's JSON with zeros for what predictions do not ask for, a third of its bytes."""
    model = json.loads(data)
    for tree in model["learner"]["gradient_booster"]["model"]["trees"]:
        for name in ("base_weights", "loss_changes", "sum_hessian"):
            tree[name] = [0.0] * len(tree[name])
    return json.dumps(model, separators=(",", ":")).encode()


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
        return KnowledgeModel(booster, About(**fields))
    except (lzma.LZMAError, ValueError, TypeError, xgboost.core.XGBoostError) as error:
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
    import xgboost

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
        [own / own.sum() for own in (np.exp(-one.slowness * one.targets[rows])
                                     for one, rows in learnt)]
    )  # fmt: skip
    weights /= weights.mean()
    places = np.repeat(np.arange(len(lessons)), [len(rows) for rows in kept])
    blind = features.copy()
    blind[:, [name.startswith(_OF_THE_WORKLOAD) for name in columns.names]] = np.nan
    both = [
        xgboost.DMatrix(
            seen, targets, weight=weights, feature_names=list(columns.names), nthread=nthread
        )
        for seen in (features, blind)
    ]
    boosters = [
        xgboost.train(
            {**_SETTINGS, "seed": _MEMBERS * seed + i, "nthread": nthread}, both[i % 2], _ROUNDS,
            obj=_within(places, weights),
        )
        for i in range(_MEMBERS)
    ]  # fmt: skip
    used = {name for one in lessons for name in one.templates}
    about = About(
        device, arch, {name: versions[name] for name in sorted(used)},
        sum(len(one.seconds) for one in lessons), len(lessons),
        _failed(lessons), date,
        None if decides is None else dict(sorted(decides.items())),
        sorted({kind_of(one.workload) for one in lessons}),
    )  # fmt: skip
    return KnowledgeModel(_mean(boosters), about)


def _within(
    places: np.ndarray, weights: np.ndarray
) -> Callable[[np.ndarray, xgboost.DMatrix], tuple[np.ndarray, np.ndarray]]:
    """Squared errors of what trials of one workload differ by: gradients and second derivatives.

    The best of a dozen recorded configurations is not the best of a workload, by a margin that
    differs from workload to workload and that no tree has to explain.
    """
    totals = np.bincount(places, weights)

    def objective(found: np.ndarray, data: xgboost.DMatrix) -> tuple[np.ndarray, np.ndarray]:
        errors = found - data.get_label()
        errors -= (np.bincount(places, weights * errors) / totals)[places]
        return weights * errors, weights

    return objective


def _mean(boosters: Sequence[xgboost.Booster]) -> xgboost.Booster:
    """One booster with the trees of several, which predicts the mean of what they predict."""
    import xgboost

    models = [json.loads(bytes(one.save_raw("json"))) for one in boosters]
    trees = []
    for model in models:
        for tree in model["learner"]["gradient_booster"]["model"]["trees"]:
            tree["id"] = len(trees)
            # A leaf's value stands where other nodes have what they split at.
            tree["split_conditions"] = [
                value / len(models) if left < 0 else value
                for value, left in zip(tree["split_conditions"], tree["left_children"], strict=True)
            ]
            trees.append(tree)
    joined = models[0]["learner"]["gradient_booster"]["model"]
    joined["trees"], joined["tree_info"] = trees, [0] * len(trees)
    joined["iteration_indptr"] = list(range(len(trees) + 1))
    joined["gbtree_model_param"]["num_trees"] = str(len(trees))
    booster = xgboost.Booster()
    booster.load_model(bytearray(json.dumps(models[0]).encode()))
    return booster


def _failed(lessons: Sequence[Lesson]) -> list[tuple[str, dict[str, Any]]]:
    from autoq.search.knobs import plain_config

    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for one in lessons:
        for i in np.flatnonzero(~np.isfinite(one.seconds)).tolist():
            config = plain_config(one.configs[i])
            found.setdefault(f"{one.templates[i]} {config}", (one.templates[i], config))
    return list(found.values())
