"""cuBLASLt's int8 matrix product for 1x1 convolutions of stride 1: every algorithm it proposes."""

from __future__ import annotations

from collections.abc import Sequence

from autoq.libraries.byte_products import ByteMatrices, ByteProducts
from autoq.libraries.ranking import PeerTime
from autoq.measure.job import Timing
from peers.layer import Layer, LayerData, alpha


class CublasLtInt8:
    """weight [k, c] times x [pixels, c] transposed, int8 in and out, scaled in float32.

    The scale is one number, or one of each channel; a residual is the matrix C.
    """

    def __init__(self) -> None:
        self._products = ByteProducts()
        self.version = self._products.version

    def supports(self, layer: Layer) -> bool:
        workload = layer.workload
        return (
            (workload.r, workload.s, workload.stride) == (1, 1, (1, 1))
            and not any(workload.padding)
            and workload.groups == 1
        )

    def prepare(self, layers: Sequence[Layer]) -> None:
        """Nothing: its kernels are compiled already."""

    def measure(self, layer: Layer, timing: Timing) -> PeerTime:
        workload, data = layer.workload, LayerData(layer.workload)
        residual = data.residual
        matrices = ByteMatrices(
            data.x.reshape(-1, workload.c),
            data.weight.reshape(workload.k, workload.c),
            data.scale,
            alpha(workload),
            None if residual is None else residual.reshape(-1, workload.k),
        )
        return self._products.fastest(matrices, data.max_steps, timing)
