"""The first two stages of attention under a sparse mask: k, v and q as bytes, with their steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.functions import DeviceFunction
from autoq.templates.cuda.device.launch.dependent_launch import cooperating
from autoq.templates.cuda.device.launch.thread_kernel import call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.sparse_attention.quantise_source import (
    QUANTISE_SOURCE,
    VALUES_SOURCE,
)
from autoq.templates.cuda.sparse_attention.team_source import HELD_SOURCE, TEAM_SOURCE
from autoq.templates.cuda.sparse_attention.teams import Teams, copies_in_bulk
from autoq.templates.operators.sparse_attention import GROUP, SparseAttention
from autoq.templates.program import Stage, Workspace
from autoq.templates.target import Target

_THREADS = 256
_PARTS = 32
"""Parts of a pair's keys and values whose largest magnitudes are taken apart."""
_HOLDING_THREADS, _FOUND_BYTES = 512, 1024
"""Threads of a block that holds its shares, and shared memory for what its warps find."""


@dataclass(frozen=True)
class Quantisation:
    """Of a workload, with so many keys of a pair, those behind the last one zeros.

    slot: keys that lie together, with their values behind them. A key's chunks of 16 bytes change
    places by its number, or not, where each lies alone.
    queries: whether those are quantised as well; a kernel that reads each once does it itself.
    Such a one also says where keys lie, by an array of their places.
    """

    workload: SparseAttention
    padded_keys: int
    queries: bool = True
    slot: int = 1

    @property
    def wide(self) -> int:
        """Bytes of a row of q, k or v: its depth in whole products."""
        return 64 if self.workload.depth <= 64 else 128

    @property
    def group_rows(self) -> int:
        """Queries in whole groups."""
        return self.workload.groups * GROUP

    @property
    def constants(self) -> dict[str, int]:
        """What sources of all stages ask of the arrays."""
        workload = self.workload
        return {
            "WIDE": self.wide, "DEPTH": workload.depth, "BRAIN": workload.dtype == "bfloat16",
            "KEYS": workload.keys, "PADDED_KEYS": self.padded_keys, "QUERIES": workload.queries,
            "GROUP_ROWS": self.group_rows, "ROW_STEP": workload.row_step, "SLOT": self.slot,
            "MOST": 2 ** (workload.qkv_bits - 1) - 1,
        }  # fmt: skip

    @property
    def maxima(self) -> TensorSpec:
        """The largest magnitudes of each part, between the stages."""
        return TensorSpec("maxima", (self.workload.pairs, _PARTS, 2), "int32")

    @property
    def writes(self) -> tuple[TensorSpec, ...]:
        """Bytes of q and steps of its rows, bytes of k and v side by side and their steps."""
        pairs, wide = self.workload.pairs, self.wide
        of_queries = (
            TensorSpec("q_bytes", (pairs, self.group_rows, wide), "int8"),
            TensorSpec("q_steps", (pairs, self.group_rows), "float32"),
        )
        return (
            *(of_queries if self.queries else ()),
            TensorSpec("kv_bytes", (pairs, self.padded_keys, 2 * wide), "int8"),
            TensorSpec("kv_steps", (pairs, 2), "float32"),
        )

    @property
    def places(self) -> TensorSpec:
        """Where each key lies among those of its pair."""
        return TensorSpec("places", (self.padded_keys,), "int32")

    def teams(self, blocks: int, threads: int, room_bytes: int) -> Teams | None:
        """Teams of at most so many blocks, each with so much shared memory for keys and values;
        None where shares of a pair do not fit, or where queries are quantised too.
        """
        octets = self.padded_keys * self.wide // 8
        found = Teams(self.workload.pairs, octets, blocks, threads, room_bytes)
        return found if found.fits and not self.queries else None

    def _holding(self, target: Target) -> Teams | None:
        """Those of a kernel that does nothing else."""
        room = target.smem_bytes - _FOUND_BYTES
        return self.teams(target.units, _HOLDING_THREADS, room)

    def workspaces(self, target: Target) -> tuple[Workspace, ...]:
        """What is between the stages, and what they leave behind."""
        holding = self._holding(target)
        between = holding.meeting if holding else Workspace(self.maxima)
        return (between, *map(Workspace, self.writes))

    def stages(self, target: Target) -> tuple[Stage, ...]:
        """Largest magnitudes, then bytes; both at once where blocks hold all keys and values."""
        holding = self._holding(target)
        return (self._held(holding, target),) if holding else self._in_two(target)

    def _held(self, teams: Teams, target: Target) -> Stage:
        own = {
            "THREADS": teams.threads, "WARPS": teams.threads // 32, "RELEASES": 0,
            "BULK": copies_in_bulk(target),
            **self.constants, **teams.constants,
        }  # fmt: skip
        source = VALUES_SOURCE + TEAM_SOURCE + HELD_SOURCE
        functions = DeviceNamespace("sparse_quantise", source, {}, own)
        shape = (teams.blocks, teams.threads, teams.smem_bytes + teams.found_bytes)
        _, k, v = self.workload.inputs
        writes = (*self.writes, teams.meeting.spec)
        return stage(
            functions.function("quantise_held"), (k, v, self.places), writes, shape, target, True
        )

    def _in_two(self, target: Target) -> tuple[Stage, Stage]:
        workload, chunks = self.workload, self.wide // 16
        own = {"PARTS": _PARTS, "THREADS": _THREADS}
        functions = DeviceNamespace(
            "sparse_quantise", VALUES_SOURCE + QUANTISE_SOURCE, {}, {**self.constants, **own}
        )
        q, k, v = workload.inputs
        of_kv = -(-self.padded_keys * 2 * chunks // _THREADS)
        of_q = -(-self.group_rows * chunks // _THREADS)
        shape = (workload.pairs * _PARTS, _THREADS, _THREADS // 32 * 8)
        measure = stage(functions.function("measure"), (k, v), (self.maxima,), shape, target)
        if self.queries:
            reads = (q, k, v, self.maxima)
            name, blocks = "quantise", of_kv + of_q
        else:
            reads = (k, v, self.maxima, self.places)
            name, blocks = "quantise_keys_alone", of_kv
        whole = (workload.pairs * blocks, _THREADS, 0)
        return measure, stage(functions.function(name), reads, self.writes, whole, target)


def stage(
    function: DeviceFunction,
    reads: Sequence[TensorSpec],
    writes: Sequence[TensorSpec],
    shape: tuple[int, int, int],
    target: Target,
    together: bool = False,
) -> Stage:
    """A stage of function(smem?, reads, writes, block, thread): blocks, threads, shared bytes.

    together: whether blocks wait for one another, so that all run at once.
    """
    blocks, threads, smem_bytes = shape

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        if not smem_bytes:
            call(function, *pointers, block, thread)
            return
        smem = builder.alloc_buffer((smem_bytes,), "uint8", scope="shared.dyn", align=128)
        call(function, smem.data, *pointers, block, thread)

    kernel = thread_kernel([*reads, *writes], blocks, threads, target, body)
    if together:
        kernel = cooperating(kernel)
    names = ([spec.name for spec in specs] for specs in (reads, writes))
    return Stage(kernel, *(tuple(each) for each in names))
