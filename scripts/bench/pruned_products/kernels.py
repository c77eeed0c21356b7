"""Kernels of a product with a pruned weight, compiled and packed once and kept in a file.

Machine code is kept by its source in a folder of its own, so that it serves further configurations
and may come from another machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from array_files import read_arrays, write_arrays
from cases.pruned_cases import PrunedCase

from autoq.compilation.selection import choose
from autoq.devices import Host
from autoq.errors import BuildError, ConfigError
from autoq.kernel.compile import compile_program
from autoq.records.database import Database
from autoq.runtime.kernel_json import kernel_from_json, kernel_to_json, machine_code
from autoq.search.knobs import plain_config
from autoq.templates.base import Template
from autoq.templates.registry import TEMPLATES, matching
from autoq.templates.target import Target
from autoq.templates.workload_key import from_dict, to_dict

_THREADS = 4
_MACHINE_CODE = "machine_code"


@dataclass(frozen=True)
class Candidate:
    """A kernel with what it takes; or why it could not be compiled.

    dense: whether it is that of the product that knows no zeros.
    """

    template: str
    config: dict[str, Any]
    kernel: Any
    packed: Any
    failure: str | None
    dense: bool = False

    def __str__(self) -> str:
        taken = self.kernel and f"{self.kernel.registers} {self.kernel.spill_bytes} spilled"
        return f"{self.template} {self.config} {taken or self.failure}"


@dataclass(frozen=True)
class Prepared:
    """A case with its arrays, its reference and its kernels."""

    workload: Any
    target: Target
    activations: Any
    expected: Any
    candidates: list[Candidate]


@dataclass(frozen=True)
class Asked:
    """Which kernels of a case.

    knobs: sets of name=value, in place of those of each template's default; a set that begins with
    "template:" is for that template alone. dense: whether the kernel is asked for that compile
    chooses for the dense product, by what is recorded, and its template's with knobs of its own.
    without_wgmma: whether those are asked for as well that a GPU without wgmma has.
    """

    knobs: tuple[tuple[str, ...], ...]
    host: Host
    dense: bool = False
    without_wgmma: bool = False

    @property
    def hosts(self) -> list[Host]:
        """The host, and as what it is seen where its wgmma, which sm_90a alone has, is not used."""
        found = [self.host]
        if self.without_wgmma and self.host.target.has_wgmma:
            found.append(replace(self.host, target=replace(self.host.target, arch="sm_90")))
        return found

    def sets(self, template: str) -> Iterator[tuple[str, ...]]:
        """The sets of knobs that are for a template by its name."""
        for own in self.knobs:
            if own and own[0] == f"{template}:":
                yield own[1:]

    @property
    def for_all(self) -> list[tuple[str, ...]]:
        """Those that name no template."""
        return [own for own in self.knobs if not (own and own[0].endswith(":"))]


def prepared(case: PrunedCase, asked: Asked, cache: Path) -> Prepared:
    """A case out of the cache, made where it is not there."""
    host = asked.host
    of_host = host.target.arch, host.target.units, host.device
    words = case.name, asked.knobs, asked.dense, asked.without_wgmma, *of_host
    file = cache / f"{hashlib.sha256(repr(words).encode()).hexdigest()[:20]}.npz"
    if not file.exists():
        write_arrays(file, _plain(_made(case, asked, cache / _MACHINE_CODE)))
    return _prepared_from(read_arrays(file), host.target)


def _plain(made: Prepared) -> dict[str, Any]:
    """What a file holds of a case."""
    kernels = [
        {
            "template": one.template, "config": json.dumps(one.config), "packed": one.packed,
            "failure": one.failure, "dense": one.dense,
            "kernel": one.kernel and json.dumps(kernel_to_json(one.kernel)),
            "code": one.kernel and np.frombuffer(machine_code(one.kernel), np.uint8),
        }
        for one in made.candidates
    ]  # fmt: skip
    return {
        "workload": json.dumps(to_dict(made.workload)),
        "activations": made.activations,
        "expected": made.expected,
        "kernels": kernels,
    }


def _prepared_from(held: dict[str, Any], target: Target) -> Prepared:
    """The case that `_plain` gave."""
    candidates = [
        Candidate(
            one["template"], json.loads(one["config"]),
            one["kernel"] and kernel_from_json(json.loads(one["kernel"]), one["code"].tobytes()),
            one["packed"], one["failure"], one["dense"],
        )
        for one in held["kernels"]
    ]  # fmt: skip
    workload = from_dict(json.loads(held["workload"]))
    return Prepared(workload, target, held["activations"], held["expected"], candidates)


def prepare(case: PrunedCase, asked: Asked, cache: Path) -> list[str]:
    """Make a case; a line for each of its kernels."""
    return [f"{case.name}: {one}" for one in prepared(case, asked, cache).candidates]


def _made(case: PrunedCase, asked: Asked, machine_codes: Path) -> Prepared:
    activations, constants = case.arrays()
    candidates = []
    for host in asked.hosts:
        candidates += _of_host(case, asked, host, constants, machine_codes)
    expected = case.reference(activations, constants, _THREADS)
    workload = case.workload(constants)
    return Prepared(workload, asked.host.target, activations, expected, candidates)


def _of_host(
    case: PrunedCase, asked: Asked, host: Host, constants: Any, machine_codes: Path
) -> list[Candidate]:
    """The kernels of a target, dense ones last."""
    workload, target = case.workload(constants), host.target
    dense = matching(case.dense, target)
    found: dict[Any, Candidate] = {}
    for template in (each for each in matching(workload, target) if each not in dense):
        space = template.space(workload, target)
        default = template.default(workload, target)
        for own in (*asked.for_all, *asked.sets(template.name)):
            config = _with(space, default, own)
            # Knobs that a template does not have change nothing of it.
            if config is not None and (template.name, config) not in found:
                made = _candidate(template, workload, config, constants, target, machine_codes)
                found[template.name, config] = made
    candidates = list(found.values())
    if asked.dense:
        chosen = choose(workload.dense, host, Database.load([], shipped=True), TEMPLATES)
        if chosen is not None:
            template, work = chosen.template, workload.dense
            space = template.space(work, target)
            named = (_with(space, chosen.config, own) for own in asked.sets(template.name))
            for config in dict.fromkeys((chosen.config, *filter(None, named))):
                made = _candidate(template, work, config, constants, target, machine_codes)
                candidates.append(replace(made, dense=True))
    return candidates


def _with(space: Any, default: Any, knobs: tuple[str, ...]) -> Any:
    """The default with the knobs that its space has; None where that is no legal configuration."""
    values = space.to_dict(default)
    named = {name: json.loads(v) for name, v in (item.split("=", 1) for item in knobs)}
    values |= {name: value for name, value in named.items() if name in values}
    try:
        return space.from_dict(values)
    except ConfigError:
        return None


def _candidate(
    template: Template, workload: Any, config: Any, constants: Any, target: Target,
    machine_codes: Path,
) -> Candidate:  # fmt: skip
    specs = (*workload.inputs, *template.packed(workload, config), *workload.outputs)
    plain = plain_config(config)
    try:
        program = template.program(workload, config, target)
        kernel = compile_program(program, specs, target, cache_dir=machine_codes)
    except BuildError as error:
        return Candidate(template.name, plain, None, None, str(error))
    packed = template.constants(workload, config, constants)
    return Candidate(template.name, plain, kernel, packed, None)
