"""The fused kernel's schedule against the mask it was packed from, and its outputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.kernel.kernel_store import KernelStore
from autoq.templates.cuda.sparse_attention.config import STEP, FusedConfig, FusedTiling
from autoq.templates.cuda.sparse_attention.schedule import (
    NEVER,
    OF_PLACE,
    PARTLY,
    chosen_of,
    due_times,
    pack_schedule,
)
from autoq.templates.cuda.sparse_attention.sparse_attention_fused import TEMPLATE
from autoq.templates.operators.sparse_attention import GROUP, SparseAttention
from autoq.templates.sparse.structure import Structure
from autoq.templates.sparse.vector_matrix import from_dense
from autoq.templates.target import Target, parse_target
from autoq.templates.workload import Constants

WORKLOAD = SparseAttention(1, 2, 61, 300, 64, Structure(224, 28, 80))
OLDER, HOPPER = (parse_target(f"cuda:{arch}") for arch in ("sm_80", "sm_90a"))
"""Threads copy keys, and bulk copies do."""
BOTH = (OLDER, HOPPER)


def seen_by_steps(tiling: FusedTiling, constants: Constants) -> np.ndarray:
    """The mask [queries, keys] that a schedule stands for; fails where keys are not there."""
    config, workload = tiling.config, tiling.workload
    order, firsts, both, lies_at = pack_schedule(tiling, constants)
    words, seen_of = both[:, 0], both[:, 1]
    found = np.zeros((tiling.group_rows, tiling.padded_keys), bool)
    assert sorted(order[order >= 0]) == list(range(workload.groups))
    ring, lane = config.slot * config.slots, np.arange(STEP)
    for groups, step in zip(order.reshape(len(firsts), -1), firsts, strict=True):
        turn_of_step = (-1, -1)
        while not (words[step] == NEVER).all():
            heading = int(((words[step] >> 31) << lane).sum())
            time, place = heading % OF_PLACE, heading % PARTLY // OF_PLACE
            assert turn_of_step <= (time, place) and time < tiling.key_blocks
            turn_of_step, group = (time, place), groups[place]
            assert group >= 0
            places = np.stack([words[step], words[step] >> 16]).reshape(2, 2, 2, 8) & 0x7FFF
            # The second eight lanes of each half read the other chunk of the same rows.
            np.testing.assert_array_equal(places[:, :, 1], places[:, :, 0] ^ 1)
            row, turn = np.divmod(places[:, :, 0].reshape(-1), tiling.wide // 16)
            assert (turn == row % 8 // (128 // tiling.wide)).all()
            # Behind the keys of a slot lie their values.
            slot, within = np.divmod(row, 2 * config.slot)
            assert (within < config.slot).all()
            row = slot * config.slot + within
            # The newest key of this place in the ring that is there at this time.
            last = (time + 1) * config.slot - 1
            key = last - (last - row.astype(int)) % ring
            # Of a product's columns four lanes have two neighbours each, for one query.
            scores = seen_of[step].reshape(GROUP, 4, 1) >> np.arange(8) & 1 == 1
            seen = scores.reshape(GROUP, 4, 4, 2).transpose(2, 1, 3, 0).reshape(STEP, GROUP)
            assert (key[seen.any(axis=1)] >= (time - tiling.window + 1) * config.slot).all()
            assert (heading >= PARTLY) == (not seen.all())
            for r in range(GROUP):
                own = key[seen[:, r]]
                assert not found[group * GROUP + r, own].any()
                found[group * GROUP + r, own] = True
            step += 1
    found = found[:, lies_at]
    assert not found[workload.queries :].any() and not found[:, workload.keys :].any()
    return found[: workload.queries, : workload.keys]


@pytest.mark.parametrize(
    "config",
    [
        FusedConfig(4, 1, 64, 3, 1, 1),
        FusedConfig(4, 2, 64, 4, 2, 0),
        FusedConfig(8, 1, 128, 2, 1, 2),
    ],
)
@pytest.mark.parametrize("structure", [WORKLOAD.structure, Structure(2400, 300, 300)])
def test_steps_hold_the_mask_while_its_keys_are_there(
    config: FusedConfig, structure: Structure
) -> None:
    workload = replace(WORKLOAD, structure=structure)
    _, constants = workload.random_case(np.random.default_rng(1))
    found = seen_by_steps(FusedTiling(workload, config), constants)
    np.testing.assert_array_equal(found, workload.mask(constants).to_dense() != 0)


@settings(max_examples=40, deadline=None)
@given(
    queries=st.integers(1, 40),
    keys=st.integers(1, 260),
    shares=st.lists(st.sampled_from([0.0, 0.02, 0.3, 1.0]), min_size=1, max_size=5),
    window=st.sampled_from([(2, 1), (3, 1), (4, 2)]),
    seed=st.integers(0, 99),
)
def test_steps_hold_any_mask(
    queries: int, keys: int, shares: list[float], window: tuple[int, int], seed: int
) -> None:
    """Empty rows, full ones, rows that begin or end anywhere, masks of single elements."""
    rng = np.random.default_rng(seed)
    share = np.resize(shares, queries)[:, None]
    dense = rng.random((queries, keys)) < share
    dense[:, : keys // 3] &= rng.random() < 0.5
    vectors = from_dense(dense.astype(np.uint8), GROUP)
    workload = SparseAttention(1, 1, queries, keys, 64, Structure.of(vectors.lengths))
    constants = {
        "columns": vectors.indices,
        "pointers": vectors.pointers,
        "kept": ((vectors.values != 0) @ (1 << np.arange(GROUP))).astype(np.uint8),
        "scale": np.ones(1, np.float32),
    }
    slots, ahead = window
    tiling = FusedTiling(workload, FusedConfig(4, 1, 64, slots, ahead, 1))
    np.testing.assert_array_equal(seen_by_steps(tiling, constants), dense)


def test_eights_differ_modulo_8_where_there_are_such() -> None:
    columns = np.random.default_rng(3).permutation(64)
    first = np.flatnonzero(columns % 8 == columns[-1] % 8)[-6:]
    chosen = chosen_of(columns, first)
    assert len(set(chosen)) == STEP and set(first) <= set(chosen)
    crowd = np.bincount(columns[chosen] % 8, minlength=8)
    assert crowd[columns[-1] % 8] == 6 and np.delete(crowd, columns[-1] % 8).max() <= 4
    eights = columns[chosen_of(columns, first[:0])].reshape(-1, 8) % 8
    assert [len(set(eight)) for eight in eights] == [8] * 4


def test_turns_of_a_residue_come_evenly() -> None:
    """Of 819 random keys the largest crowd in 32 that follow each other is smaller by due time."""
    rng = np.random.default_rng(4)
    config = FusedConfig(16, 4, 128, 12, 1, 1)
    tiling = FusedTiling(SparseAttention(1, 1, 8, 8192, 64, Structure(819, 819, 819)), config)
    crowds: dict[str, list[int]] = {"place": [], "due": []}
    for _ in range(20):
        columns = np.sort(rng.permutation(8192)[:819])
        due = due_times(columns, tiling)
        blocks = columns // config.slot
        assert (due >= blocks).all() and (due < blocks + tiling.window).all()
        for name, order in (("place", np.arange(819)), ("due", np.argsort(due, kind="stable"))):
            runs = (columns[order] % 8)[: 25 * STEP].reshape(-1, STEP)
            crowds[name] += [np.bincount(run).max() for run in runs]
    assert np.mean(crowds["due"]) < 0.8 * np.mean(crowds["place"])


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config", "targets"),
    [
        (replace(WORKLOAD, softmax_bits=16), FusedConfig(4, 1, 64, 3, 1, 1), BOTH),
        (replace(WORKLOAD, softmax_bits=16), FusedConfig(4, 2, 64, 4, 1, 0), BOTH),
        (WORKLOAD, FusedConfig(4, 2, 64, 4, 2, 0), BOTH),
        (
            replace(WORKLOAD, depth=40, dtype="bfloat16", qkv_bits=4),
            FusedConfig(4, 1, 128, 2, 1, 2),
            (HOPPER,),
        ),
        (
            replace(WORKLOAD, batch=2, depth=128, softmax_bits=16, order="blhd"),
            FusedConfig(4, 1, 64, 3, 1, 1),
            (OLDER,),
        ),
        (replace(WORKLOAD, structure=Structure(0, 0, 0)), FusedConfig(4, 1, 64, 2, 1, 1), BOTH),
        (
            replace(WORKLOAD, structure=Structure(2400, 300, 300), softmax_bits=16),
            FusedConfig(4, 2, 64, 3, 1, 1),
            BOTH,
        ),
    ],
    ids=["16 bits", "16 bits without headroom", "8 bits", "4 bits", "deep", "empty", "full"],
)
def test_outputs_are_right(
    workload: SparseAttention, config: FusedConfig, targets: tuple[Target, ...]
) -> None:
    for target in targets:
        assert config in TEMPLATE.space(workload, target)
        assert_right_emulated(TEMPLATE, workload, config, target)


ROWS = replace(WORKLOAD, queries=200, structure=Structure(700, 28, 80))


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config", "units", "teams", "lag"),
    [
        (ROWS, FusedConfig(8, 1, 512, 3, 1, 1), 5, (2, 2), 0),
        (replace(ROWS, keys=1100), FusedConfig(8, 1, 256, 6, 2, 1), 5, (1, 5), 1),
        (
            replace(ROWS, heads=3, depth=128, keys=600, order="blhd", softmax_bits=16),
            FusedConfig(4, 1, 128, 6, 1, 1), 19, (1, 19), 2,
        ),
        (
            replace(ROWS, batch=5, heads=5, depth=40, queries=100, dtype="bfloat16", qkv_bits=4,
                    structure=Structure(13 * 28, 28, 80)),
            FusedConfig(4, 1, 128, 12, 1, 0), 64, (13, 4), 1,
        ),
        (replace(ROWS, queries=64, keys=128), FusedConfig(4, 1, 64, 2, 1, 1), 132, (2, 2), 0),
    ],
    ids=["one slot", "many slots", "deep", "two teams of many", "one item"],
)  # fmt: skip
def test_blocks_make_bytes_and_attend_to_their_items(
    workload: SparseAttention,
    config: FusedConfig,
    units: int,
    teams: tuple[int, int],
    lag: int,
) -> None:
    """Of several teams, on a device of so few multiprocessors that most blocks have two items."""
    target = replace(HOPPER, units=units)
    found = FusedTiling(workload, config).teams(target)
    assert found is not None and (found.teams, found.team, found.lag) == (*teams, lag)
    assert_right_emulated(TEMPLATE, workload, config, target)


@needs_nvcc
@pytest.mark.parametrize(
    ("depth", "bits", "arch"),
    [(128, 16, "sm_90a"), (64, 8, "sm_86"), (64, 8, "sm_90a"), (64, 16, "sm_90a")],
)
def test_untuned_choices_spill_nothing(depth: int, bits: int, arch: str) -> None:
    """Of long sequences, whose blocks have as many sums as registers hold."""
    target, structure = parse_target(f"cuda:{arch}"), Structure(419328, 819, 991)
    workload = SparseAttention(2, 8, 4096, 8192, depth, structure, softmax_bits=bits)
    config = TEMPLATE.default(workload, target)
    kernel = KernelStore(None).kernel(TEMPLATE, workload, config, target)
    assert kernel.spill_bytes == 0 and kernel.registers * 32 * config.warps <= 65536
