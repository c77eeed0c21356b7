"""Layers by `spmm_vnni`, with activations turned in front of it and behind it."""

from __future__ import annotations

from autoq.templates.composed.turned_product import TurnedProduct
from autoq.templates.cpu.permute import permute_kernel, permutes
from autoq.templates.cpu.sparse.spmm_vnni import TEMPLATE as INNER

TEMPLATE = TurnedProduct(INNER, permutes, permute_kernel).template(__name__)
