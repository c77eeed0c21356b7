"""What is packed of weights that are 2:4 inside tiles: chunks, kept values, metadata and picks."""

from __future__ import annotations

import numpy as np
import pytest
from tile_two_four_cases import BRAIN, BYTES, FLOATS, LEAST, masked

from autoq.templates.arrays.element import element
from autoq.templates.cuda.device.mma.registers import from_words
from autoq.templates.cuda.pruned.picked.operand import operand_of
from autoq.templates.cuda.pruned.picked.steps import NO_ROW
from autoq.templates.cuda.pruned.tile_two_four.chunks import chunk_picks, most_steps
from autoq.templates.cuda.pruned.tile_two_four.config import TileTwoFourConfig, TileTwoFourTiling
from autoq.templates.cuda.pruned.tile_two_four.gemm_tile_two_four_mma_sync import TEMPLATE
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.two_four import group_starts


def grouped(rng: np.random.Generator, rows: int, share: float) -> list[np.ndarray]:
    """Some of so many rows in groups of up to four that follow each other."""
    kept = np.flatnonzero(rng.random(rows) < share)
    ends = np.cumsum(rng.integers(1, 5, len(kept)))
    return [group for group in np.split(kept, ends[ends < len(kept)]) if len(group)]


def picked_places(words: np.ndarray, size: int, row_bytes: int) -> np.ndarray:
    """Which place of all stages each value of a fragment is, int64 [steps, values], from words.

    words: uint32 [steps, lanes, registers], as `Picks.near` says them.
    """
    found, begun = [], 0
    for step in words:
        begun += int(step[0, 0] >> 28 & 7)
        own = []
        for register in range(4):
            for lane in range(4):
                pick = int(step[lane, register])
                at = []
                for place in (pick >> 16 & 63, pick >> 22 & 63):
                    stage = begun - 1 if (begun - 1) % 2 == place >> 5 else begun - 2
                    at.append(stage * row_bytes + 4 * (place & 31))
                chosen = [pick >> 4 * byte & 7 for byte in range(4)]
                assert not pick >> 31 or max(chosen) < 4, "the second word is not read"
                places = np.array([at[byte // 4] + byte % 4 for byte in chosen])
                values = places.reshape(-1, size)
                assert (values - values[:, :1] == np.arange(size)).all()
                own += (values[:, 0] // size).tolist()
        found.append(own)
    return np.array(found)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("row_bytes", [32, 128])
def test_chunks_are_groups_of_words_that_are_there(size: int, share: float, row_bytes: int) -> None:
    """Each row once, in chunks of one group or of two rows, picked of stages that have begun."""
    rng = np.random.default_rng(int(100 * share) + size)
    stages = 9
    rows = stages * row_bytes // size
    groups = grouped(rng, rows, share)
    picks = chunk_picks(groups, size, stages, row_bytes)
    steps = len(picks.rows) // 2
    assert 1 <= steps <= most_steps(sum(map(len, groups)), len(groups), size, stages)
    own = picks.rows.reshape(steps, -1)
    kept = np.concatenate(groups) if groups else np.zeros(0, np.int64)
    np.testing.assert_array_equal(np.sort(own[own != NO_ROW]), kept)
    group_of = {row: number for number, group in enumerate(groups) for row in group.tolist()}
    for chunk in own.reshape(-1, 4):
        there = chunk[chunk != NO_ROW].tolist()
        assert len(there) <= 2 or len({group_of[row] for row in there}) == 1
    words = picks.near(row_bytes // 4).reshape(steps, 2, 4, 2).transpose(0, 2, 1, 3)
    places = picked_places(words.reshape(steps, 4, 4), size, row_bytes)
    np.testing.assert_array_equal(places[own != NO_ROW], own[own != NO_ROW])


def tiling_of(workload: Gemm | FloatGemm, config: TileTwoFourConfig = LEAST) -> TileTwoFourTiling:
    operand = operand_of(workload)
    assert operand is not None
    return TileTwoFourTiling(operand, config)


def spread(tiling: TileTwoFourTiling, stages: np.ndarray) -> np.ndarray:
    """A tile's weight [columns, k] of its stages, by what PTX says of each lane's registers."""
    cut, size = tiling.cut, tiling.operand.size
    values = stages[:, : cut.places_at].view(np.uint32).reshape(len(stages), -1, 32, 4)
    metadata = stages[:, cut.places_at : cut.picks_at].view(np.uint32).reshape(len(stages), -1, 32)
    words = stages[:, cut.picks_at : cut.picks_at + 64].view(np.uint32).reshape(-1, 4, 4)
    rows = tiling.operand.rows(picked_places(words, size, tiling.operand.row_bytes))
    k = cut.atom.k
    found = np.zeros((cut.width, tiling.operand.view.k), element(cut.atom.a).dtype)
    for step, block in np.ndindex(len(stages), cut.width // 16):
        stored = np.zeros((16, k // 2), found.dtype)
        for lane, register in np.ndindex(32, 4):
            row, first = lane // 4 + register % 2 * 8, register // 2 * 16 + lane % 4 * 4
            kept = from_words(values[step, block, lane, register], cut.atom.a)
            stored[row, first // size : first // size + 4 // size] = kept
        for row, chunk in np.ndindex(16, k // 4):
            # Of bytes lanes 0 and 1 of four have the first halves of rows g and g + 8, of floats a
            # lane has four chunks of both, and two of four lanes are an instruction's.
            if size == 1:
                lane, at = row % 8 * 4 + row // 8 + chunk // 8 * 2, chunk % 8
            else:
                lane, at = row % 8 * 4 + block % 2 * 2 + chunk // 4, row // 8 * 4 + chunk % 4
            bits = int(metadata[step, block // size, lane]) >> 4 * at & 15
            first, second = bits & 3, bits >> 2
            assert first < second, "places in order"
            column = 16 * block + 2 * (row % 8) + row // 8
            for number, place in enumerate((first, second)):
                value, own = stored[row, 2 * chunk + number], rows[step, 4 * chunk + place]
                assert own != NO_ROW or value == 0
                found[column, own] += value  # a row that is picked twice has a weight of 0 once
    return found


@pytest.mark.parametrize("sparsity", [0.0, 0.2, 0.6, 0.95, 1.0])
@pytest.mark.parametrize("workload", [BYTES, FLOATS, BRAIN], ids=str)
def test_stages_hold_the_weight(workload: Gemm | FloatGemm, sparsity: float) -> None:
    """Kept values, their metadata and what is picked for them give the weight again."""
    known, (_, constants) = masked(workload, 40, sparsity, 3)
    tiling, weight = tiling_of(known), constants["weight"]
    values, tiles, *_ = TEMPLATE.pack(known, LEAST, constants)
    found = np.zeros_like(weight)
    every = sorted(known.sparsity.tiles_of(weight), key=lambda tile: -len(tile.rows))
    for number, tile in enumerate(every):
        first, count = tiles[number, :2]
        own = spread(tiling, values[first : first + count])
        found[tile.columns] = own[: len(tile.columns)]
        assert not own[len(tile.columns) :].any()
        nonzero = weight[np.ix_(tile.columns, tile.rows)].T != 0
        assert len(group_starts(nonzero)) <= known.sparsity.beside.longest_row
    np.testing.assert_array_equal(found, weight)
