"""A space of legal configurations: the knobs of one kernel template under named rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from autoq.errors import ConfigError
from autoq.search.batch import Batched
from autoq.search.feature_table import FeatureTable
from autoq.search.knobs import Knobs, plain
from autoq.search.lanes import Lanes
from autoq.search.legality import Legality
from autoq.search.mutants import mutants, neighbours

C = TypeVar("C")


class Space(Generic[C]):
    """The legal configurations of a frozen dataclass.

    Args:
        config_type: frozen dataclass whose fields are the knobs.
        knobs: the values of each field: JSON values, members of enums, frozen dataclasses of
            such values, or tuples of them.
        constraints: named functions that are true for a legal configuration; a rejection
            quotes the name and the first docstring line of the first that is not.
        features: derived model features of a configuration, the same keys for each.

    Raises:
        ConfigError: when knobs and fields differ or a knob's values are unusable.
    """

    def __init__(
        self,
        config_type: type[C],
        knobs: Mapping[str, Sequence[Any]],
        constraints: Sequence[Callable[[C], bool]] = (),
        features: Callable[[C], Mapping[str, float]] | None = None,
    ) -> None:
        if not is_dataclass(config_type):
            raise ConfigError(f"{config_type.__name__} is not a dataclass")
        names = [field.name for field in fields(config_type) if field.init]
        if set(names) != set(knobs):
            odd = sorted(set(names) ^ set(knobs))
            raise ConfigError(f"{config_type.__name__}: fields and knobs differ in {odd}")
        self.config_type = config_type
        self._defaults = {
            field.name: field.default
            for field in fields(config_type)
            if field.init and field.default is not MISSING
        }
        self.constraints = tuple(constraints)
        self._knobs = Knobs({name: knobs[name] for name in names})
        self._legality = Legality(config_type, self._knobs, self.constraints)
        self._derive = features
        self._features = FeatureTable(config_type, self._knobs, features)

    def __repr__(self) -> str:
        return f"Space({self.config_type.__name__}, size={self.size})"

    @property
    def knobs(self) -> dict[str, tuple[Any, ...]]:
        """The values of each knob."""
        return dict(zip(self._knobs.names, self._knobs.values, strict=True))

    @property
    def derive(self) -> Callable[[C], Mapping[str, float]] | None:
        """The derived features of a configuration; None for a space without."""
        return self._derive

    @property
    def size(self) -> int:
        """Number of combinations of knob values, legal or not."""
        return self._knobs.size

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns that encode returns."""
        if not self._features.complete:
            # The first legal code may lie behind millions that are not; a drawn one does not.
            self._features.rows(self.sample_codes(np.random.default_rng(0), 1))
        return self._features.names

    def restricted(self, values: Mapping[str, Sequence[Any]]) -> Space[C]:
        """The space with only some of the values of some knobs.

        Raises:
            ConfigError: for a knob that it lacks, or a value that the knob lacks.
        """
        knobs: dict[str, Sequence[Any]] = dict(self.knobs)
        for name, wanted in values.items():
            for value in wanted:
                at = self._knobs.names.index(name) if name in knobs else None
                if at is None or self._knobs.index(at, value) is None:
                    have = knobs.get(name, tuple(knobs))
                    raise ConfigError(f"cannot restrict {name!r} to {value!r}; there are {have}")
            knobs[name] = tuple(wanted)
        return Space(self.config_type, knobs, self.constraints, self._derive)

    def __contains__(self, config: object) -> bool:
        return isinstance(config, self.config_type) and self.legal(config)

    def legal(self, config: C) -> bool:
        """Whether every knob has one of its values and every constraint holds."""
        code = self._find_code(config)
        return code is not None and self._holds(self.config(code))

    def rejection(self, config: C) -> str | None:
        """Why a configuration is not legal, in one line; None when it is."""
        for i, name in enumerate(self._knobs.names):
            value = getattr(config, name)
            if self._knobs.index(i, value) is None:
                return f"{name}={value!r} is not one of {self._knobs.values[i]}"
        for rule in self.constraints:
            if not rule(config):
                name = getattr(rule, "__name__", repr(rule))
                says = (rule.__doc__ or "does not hold").strip().splitlines()[0]
                return f"{name}: {says}"
        return None

    def sample(self, rng: np.random.Generator, n: int) -> list[C]:
        """At most n distinct legal configurations, uniformly; fewer when no more exist."""
        return [self.config(code) for code in self.sample_codes(rng, n).tolist()]

    def mutate(self, config: C, rng: np.random.Generator) -> C:
        """A legal configuration with one random knob changed; a sample when there is none."""
        return self.config(int(self.mutate_codes(np.array([self.code(config)]), rng)[0]))

    def encode(self, configs: Sequence[C]) -> np.ndarray:
        """Model features of legal configurations, float32 [n, len(feature_names)].

        Numbers stand as they are and, when a knob has only positive ones, as log2 too;
        booleans are 0 and 1, other values one-hot; derived features come last.
        """
        codes = np.fromiter((self.code(config) for config in configs), np.int64, len(configs))
        return self.encode_codes(codes)

    def enumerate(self) -> Iterator[C]:
        """All legal configurations, in the order of their codes, judged as they are asked for."""
        return (self.config(code) for code in self._legality.enumerate())

    def to_dict(self, config: C) -> dict[str, Any]:
        """The knob values of a configuration, ready for JSON, as `knobs.plain` says."""
        return {name: plain(getattr(config, name)) for name in self._knobs.names}

    def from_dict(self, values: Mapping[str, Any]) -> C:
        """The legal configuration that to_dict wrote.

        A knob that is missing takes its field's default, if it has one: what was recorded before
        there was such a knob keeps its meaning.

        Raises:
            ConfigError: for a missing or unknown knob, or a value or combination not allowed.
        """
        name = self.config_type.__name__
        values = {**self._defaults, **values}
        odd = sorted(set(values) ^ set(self._knobs.names))
        if odd:
            what = "unknown" if odd[0] in values else "missing"
            raise ConfigError(f"{name}: {what} knob {odd[0]!r}; knobs are {self._knobs.names}")
        known: dict[str, Any] = {}
        for i, knob in enumerate(self._knobs.names):
            index = self._knobs.index(i, values[knob])
            if index is None:
                allowed = self._knobs.values[i]
                raise ConfigError(f"{name}: {knob}={values[knob]!r} is not one of {allowed}")
            known[knob] = self._knobs.values[i][index]
        config = self.config_type(**known)
        self.code(config)
        return config

    def code(self, config: C) -> int:
        """The code of a legal configuration; ConfigError names the broken rule of another."""
        code = self._find_code(config)
        if code is None or not self._holds(self.config(code)):
            raise ConfigError(f"{self.config_type.__name__}: {self.rejection(config)}")
        return code

    def config(self, code: int) -> C:
        """The configuration that a code stands for."""
        return self._from_values(self._knobs.at(code))

    def sample_codes(
        self, rng: np.random.Generator, n: int, exclude: Set[int] = frozenset()
    ) -> np.ndarray:
        """At most n distinct legal codes outside exclude; fewer only when no more exist."""
        return self._legality.sample(rng, n, exclude)

    def legal_codes(self, codes: np.ndarray) -> np.ndarray:
        """Which of codes [n] stand for legal configurations: bool [n]."""
        return self._legality.mask(codes)

    @property
    def member_count(self) -> int:
        """1: a union has more."""
        return 1

    def members_of(self, codes: np.ndarray) -> np.ndarray:
        """The member of a union that each of codes [n] belongs to; here always 0."""
        return np.zeros(len(codes), dtype=np.int64)

    def sample_member(self, member: int, rng: np.random.Generator, n: int) -> np.ndarray:
        """As `sample_codes`."""
        return self.sample_codes(rng, n)

    def mutate_codes(
        self, codes: np.ndarray, rng: np.random.Generator, stay: bool = False
    ) -> np.ndarray:
        """One legal mutant code for each of legal codes [n]: one random knob changed."""
        return mutants(self._knobs, self._legality, codes, rng)

    def neighbour_codes(self, code: int) -> np.ndarray:
        """All legal codes that differ from one in a single knob: int64 [n], always in one order."""
        return neighbours(self._knobs, self._legality, code)

    def encode_codes(self, codes: np.ndarray) -> np.ndarray:
        """Model features float32 [n, len(feature_names)] of legal codes [n]."""
        return self._features.rows(codes)

    def knob_rows(self, codes: np.ndarray) -> np.ndarray:
        """Positions of the chosen values in the knobs' lists: int64 [n, knobs]."""
        return self._knobs.indices(codes)

    def place(self, name: str, value: Any) -> int | None:
        """Position of a value in a knob's list; None where it is not there."""
        return self._knobs.index(self._knobs.names.index(name), value)

    def codes_at(self, rows: np.ndarray) -> np.ndarray:
        """Codes int64 [n] of positions in the knobs' lists [n, knobs], legal or not."""
        return self._knobs.codes(rows)

    def values(self, codes: np.ndarray, function: Callable[[C], Any]) -> np.ndarray:
        """A number that a plain function of one configuration has for codes [n]: float64 [n].

        It is computed over lanes, as features are; truth values are 0 and 1.
        """
        found = np.empty(len(codes))
        batched = Batched(function, self.config_type, self._knobs)
        for part, value in batched.over(self._knobs.positions(codes), np.arange(len(codes))):
            found[part] = value.values if type(value) is Lanes else value
        return found

    def _from_values(self, values: tuple[Any, ...]) -> C:
        return self.config_type(**dict(zip(self._knobs.names, values, strict=True)))

    def _holds(self, config: C) -> bool:
        """Whether every constraint holds for a configuration of listed values."""
        return all(rule(config) for rule in self.constraints)

    def _find_code(self, config: C) -> int | None:
        code = 0
        for i, name in enumerate(self._knobs.names):
            index = self._knobs.index(i, getattr(config, name))
            if index is None:
                return None
            code = code * len(self._knobs.values[i]) + index
        return code
