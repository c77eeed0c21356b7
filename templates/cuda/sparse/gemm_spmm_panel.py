"""Layers by `spmm_panel`, with activations turned in front of it and behind it."""

from __future__ import annotations

from autoq.templates.composed.turned_product import TurnedProduct
from autoq.templates.cuda.device.permute import permute_kernel, permutes
from autoq.templates.cuda.sparse.spmm_panel import TEMPLATE as INNER

TEMPLATE = TurnedProduct(INNER, permutes, permute_kernel).template(__name__)
