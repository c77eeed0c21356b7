"""Tiles by `gemm_tile_wise_vnni`, and single weights beside them."""

from __future__ import annotations

from autoq.templates.cpu.tile_wise.beside_elements import BesideElements
from autoq.templates.cpu.tile_wise.gemm_tile_wise_vnni import TEMPLATE as INNER

TEMPLATE = BesideElements(INNER).template("gemm_tiles_and_elements_vnni", __name__)
