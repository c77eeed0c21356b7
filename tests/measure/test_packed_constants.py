"""Constants that are packed once for all configurations that pack alike."""

import dataclasses
from dataclasses import dataclass

import numpy as np

from autoq.measure.packed_constants import PackedConstants
from autoq.templates.operators.gemm import Gemm

WORKLOAD = Gemm(4, 8, 16)
WEIGHT = np.arange(128, dtype=np.int8).reshape(8, 16)


@dataclass(frozen=True)
class Config:
    tile: int
    wide: bool
    depth: int = 2

    @property
    def rows(self) -> int:
        return self.tile if self.wide else 8


class Packing:
    """A template of which nothing but the packing is asked; `deep` copies its configuration."""

    name = "packing"
    packs_by = None

    def __init__(self, deep: bool = False) -> None:
        self.deep, self.packed = deep, 0

    def constants(self, workload, config, constants):
        self.packed += 1
        if self.deep:
            config = dataclasses.replace(config, depth=config.depth)
        return (constants["weight"][: config.rows],)


def test_knobs_that_packing_does_not_read_pack_alike():
    template, packed = Packing(), PackedConstants(WORKLOAD, {"weight": WEIGHT})
    for config, rows, times in (
        (Config(4, False), 8, 1),
        (Config(2, False, 3), 8, 1),  # the tile is read of wide ones alone
        (Config(4, True), 4, 2),
        (Config(2, True), 2, 3),
        (Config(4, True, 5), 4, 3),
    ):
        (array,) = packed.of(template, config)
        assert np.array_equal(array, WEIGHT[:rows]) and template.packed == times


def test_what_cannot_take_notes_of_its_reads_is_packed_each_time():
    template, packed = Packing(deep=True), PackedConstants(WORKLOAD, {"weight": WEIGHT})
    for _ in range(2):
        assert len(packed.of(template, Config(2, True))[0]) == 2
    assert template.packed == 4


def test_what_fills_the_memory_is_packed_again():
    template, packed = Packing(), PackedConstants(WORKLOAD, {"weight": WEIGHT}, 6 * 16)
    for tile in (2, 3, 2, 4, 2, 3):
        packed.of(template, Config(tile, True))
    assert template.packed == 4


def test_a_template_says_what_it_packs_by():
    template, packed = Packing(deep=True), PackedConstants(WORKLOAD, {"weight": WEIGHT})
    template.packs_by = lambda workload, config: config.rows
    for config, times in ((Config(2, True), 1), (Config(2, True, 3), 1), (Config(4, True), 2)):
        (array,) = packed.of(template, config)
        assert len(array) == config.rows and template.packed == times
