"""Layers by `spmm_wgmma`, with activations turned in front of it and behind it."""

from __future__ import annotations

from autoq.templates.composed.turned_product import TurnedProduct
from autoq.templates.cuda.device.permute import permute_kernel, permutes
from autoq.templates.cuda.sparse.wgmma.spmm_wgmma import TEMPLATE as INNER

TEMPLATE = TurnedProduct(INNER, permutes, permute_kernel).template(__name__)
