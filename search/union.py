"""Several spaces as one: the kernel template becomes a categorical knob of the search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.errors import ConfigError
from autoq.search.search_space import SearchSpace


@dataclass(frozen=True)
class Candidate:
    """A configuration of the template that it belongs to."""

    template: str
    config: Any


class UnionSpace:
    """The configurations of several templates for one workload.

    Features are the template one-hot (with two members or more), then the members' features;
    columns of the same name are shared, since the tree models see the template beside them, and
    a column that a template lacks is NaN, which XGBoost takes as missing.

    Args:
        members: a space for each template name.
        switch: probability that a mutation draws from another template.

    Raises:
        ConfigError: when there are no members.
    """

    def __init__(self, members: Mapping[str, SearchSpace[Any]], switch: float = 0.05) -> None:
        if not members:
            raise ConfigError("a union needs at least one space")
        self.members = dict(members)
        self._names = tuple(members)
        self._spaces = tuple(members.values())
        self._switch = switch if len(members) > 1 else 0.0
        self._columns: list[np.ndarray] = []

    def __repr__(self) -> str:
        return f"UnionSpace({', '.join(self._names)}; size={self.size})"

    @property
    def size(self) -> int:
        """Number of combinations of knob values of all templates, legal or not."""
        return sum(space.size for space in self._spaces)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns that encode returns."""
        names = [f"template={name}" for name in self._names] if len(self._names) > 1 else []
        names += [name for space in self._spaces for name in space.feature_names]
        return tuple(dict.fromkeys(names))

    def __contains__(self, config: object) -> bool:
        return (
            isinstance(config, Candidate)
            and config.template in self.members
            and config.config in self.members[config.template]
        )

    def legal(self, config: Candidate) -> bool:
        """Whether the template is a member and the configuration legal in it."""
        return config in self

    def rejection(self, config: Candidate) -> str | None:
        """Why a candidate is not legal, in one line; None when it is."""
        if config.template not in self.members:
            return f"template {config.template!r} is not one of {self._names}"
        reason = self.members[config.template].rejection(config.config)
        return reason and f"{config.template}: {reason}"

    def sample(self, rng: np.random.Generator, n: int) -> list[Candidate]:
        """At most n distinct legal candidates, about as many of each template."""
        return [self.config(code) for code in self.sample_codes(rng, n).tolist()]

    def mutate(self, config: Candidate, rng: np.random.Generator) -> Candidate:
        """A candidate with one random knob changed, rarely one of another template."""
        return self.config(int(self.mutate_codes(np.array([self.code(config)]), rng)[0]))

    def encode(self, configs: Sequence[Candidate]) -> np.ndarray:
        """Model features of legal candidates, float32 [n, len(feature_names)]."""
        codes = np.fromiter((self.code(config) for config in configs), np.int64, len(configs))
        return self.encode_codes(codes)

    def enumerate(self) -> Iterator[Candidate]:
        """All legal candidates, template by template, judged as they are asked for."""
        for name, space in self.members.items():
            for config in space.enumerate():
                yield Candidate(name, config)

    def to_dict(self, config: Candidate) -> dict[str, Any]:
        """The candidate ready for JSON: {"template": name, "config": {knob: value}}."""
        values = self.members[config.template].to_dict(config.config)
        return {"template": config.template, "config": values}

    def from_dict(self, values: Mapping[str, Any]) -> Candidate:
        """The candidate that to_dict wrote; ConfigError for anything else."""
        if set(values) != {"template", "config"}:
            raise ConfigError(f"a candidate has 'template' and 'config', not {sorted(values)}")
        template = values["template"]
        if template not in self.members:
            raise ConfigError(f"template {template!r} is not one of {self._names}")
        return Candidate(template, self.members[template].from_dict(values["config"]))

    def code(self, config: Candidate) -> int:
        """The code of a legal candidate; ConfigError names the broken rule of another."""
        if config.template not in self.members:
            raise ConfigError(f"template {config.template!r} is not one of {self._names}")
        inner = self.members[config.template].code(config.config)
        return inner * len(self._names) + self._names.index(config.template)

    def config(self, code: int) -> Candidate:
        """The candidate that a code stands for."""
        inner, member = divmod(code, len(self._names))
        return Candidate(self._names[member], self._spaces[member].config(inner))

    def sample_codes(
        self, rng: np.random.Generator, n: int, exclude: Set[int] = frozenset()
    ) -> np.ndarray:
        """At most n distinct legal codes outside exclude; fewer only when no more exist."""
        count = len(self._names)
        shares = rng.multinomial(n, [1 / count] * count).tolist()
        drawn = [self._sample_member(i, rng, shares[i], exclude) for i in range(count)]
        # Members that ran out leave their share to the others.
        for i in rng.permutation(count).tolist():
            missing = n - sum(len(codes) for codes in drawn)
            if missing:
                taken = exclude | set(np.concatenate(drawn).tolist())
                drawn.append(self._sample_member(i, rng, missing, taken))
        return rng.permutation(np.concatenate(drawn))

    @property
    def member_count(self) -> int:
        """Number of templates."""
        return len(self._names)

    def members_of(self, codes: np.ndarray) -> np.ndarray:
        """Position of the template of each of codes [n]: int64 [n]."""
        return codes % len(self._names)

    def sample_member(self, member: int, rng: np.random.Generator, n: int) -> np.ndarray:
        """At most n distinct legal codes of one template; fewer only when no more exist."""
        return self._sample_member(member, rng, n, frozenset())

    def mutate_codes(
        self, codes: np.ndarray, rng: np.random.Generator, stay: bool = False
    ) -> np.ndarray:
        """One legal mutant code for each of legal codes [n]; stay: of the same template."""
        count = len(self._names)
        member = codes % count
        mutants = codes.copy()
        for i, space in enumerate(self._spaces):
            mine = np.flatnonzero(member == i)
            if len(mine):
                mutants[mine] = space.mutate_codes(codes[mine] // count, rng) * count + i
        if self._switch and not stay:
            switching = np.flatnonzero(rng.random(len(codes)) < self._switch)
            others = (member[switching] + rng.integers(1, count, len(switching))) % count
            for other in np.unique(others).tolist():
                mine = switching[others == other]
                sampled = self._spaces[other].sample_codes(rng, len(mine))
                mutants[mine[: len(sampled)]] = sampled * count + other
        return mutants

    def by_member(
        self, codes: np.ndarray
    ) -> Iterator[tuple[str, SearchSpace[Any], np.ndarray, np.ndarray]]:
        """Each template that codes [n] are of: its space, which of them, and their codes in it."""
        member = codes % len(self._names)
        for i, name in enumerate(self._names):
            rows = np.flatnonzero(member == i)
            if len(rows):
                yield name, self._spaces[i], rows, codes[rows] // len(self._names)

    def encode_codes(self, codes: np.ndarray) -> np.ndarray:
        """Model features float32 [n, len(feature_names)] of legal codes [n]."""
        count = len(self._names)
        # A member knows the names of its features once it has encoded a code: given ones are at
        # hand, where one that is legal takes up to a second to find.
        parts = [
            (self._names.index(name), rows, space.encode_codes(own))
            for name, space, rows, own in self.by_member(codes)
        ]
        columns = self._member_columns()
        width = 1 + max(int(at.max()) for at in columns)
        features = np.full((len(codes), width), np.nan, dtype=np.float32)
        if count > 1:
            features[:, :count] = (codes % count)[:, None] == np.arange(count)
        for i, rows, own in parts:
            features[rows[:, None], columns[i]] = own
        return features

    def knob_rows(self, codes: np.ndarray) -> np.ndarray:
        """The template, then each member's knob choices: int64 [n, 1 + knobs]; -1 where absent."""
        count = len(self._names)
        member = codes % count
        parts = [member[:, None]]
        for i, space in enumerate(self._spaces):
            rows = space.knob_rows(codes // count)
            rows[member != i] = -1
            parts.append(rows)
        return np.concatenate(parts, axis=1)

    def _member_columns(self) -> list[np.ndarray]:
        """Where each member's features stand in the union's, int64 [member's features]."""
        if not self._columns:
            column = {name: i for i, name in enumerate(self.feature_names)}
            self._columns = [
                np.array([column[name] for name in space.feature_names]) for space in self._spaces
            ]
        return self._columns

    def _sample_member(
        self, member: int, rng: np.random.Generator, n: int, exclude: Set[int]
    ) -> np.ndarray:
        """At most n distinct legal codes of one member, outside exclude."""
        count = len(self._names)
        inner = {code // count for code in exclude if code % count == member}
        return self._spaces[member].sample_codes(rng, n, inner) * count + member
