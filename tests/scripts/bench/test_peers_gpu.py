"""The libraries beside autoq compute the layer they are timed at."""

from __future__ import annotations

import pytest
from gpu_kernels import end_if_compile_only
from peers.layer import layer_of
from peers.worker import METASCHEDULE, PEERS, PeerProcesses

from autoq.libraries.ranking import PeerTime
from autoq.measure.job import Timing
from autoq.process.child import ChildCrash
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.float_gemm import FloatGemm

pytestmark = pytest.mark.gpu

WORKLOADS = [
    Conv2d(2, 8, 8, 64, 64, 3, 3, padding=(1, 1, 1, 1)),
    Conv2d(2, 8, 8, 64, 128, 3, 3, (2, 2), (1, 1, 1, 1)),
    Conv2d(2, 8, 8, 64, 128, 1, 1),
    Conv2d(2, 8, 8, 64, 128, 1, 1, epilogue=Epilogue("int8", "int8")),
]


@pytest.mark.parametrize("name", [name for name in PEERS if name != METASCHEDULE])
def test_peer_is_right_and_timed(name: str) -> None:
    end_if_compile_only()
    layers = [layer_of(workload) for workload in WORKLOADS]
    peer = PeerProcesses(name, PEERS[name], {}, 120.0, 60.0)
    try:
        try:
            (future,) = peer.prepare(layers)
            future.result()
        except ChildCrash as error:
            pytest.skip(str(error))
        results = [peer.measure(layer, Timing(repeat=3)) for layer in layers]
    finally:
        peer.close()
    for workload, result in zip(WORKLOADS, results, strict=True):
        if name == "cublaslt_int8" and workload.r == 3:
            assert result is None
            continue
        assert isinstance(result, PeerTime), result
        assert 0 < result.seconds < 1e-3
        assert result.max_error <= 1


@pytest.mark.parametrize("cold", [False, True])
def test_products_of_floats_are_right_and_timed(cold: bool) -> None:
    end_if_compile_only()
    layers = [
        FloatGemm(72, 136, 256),
        FloatGemm(72, 136, 256, "bfloat16", "int4", "bfloat16", group=64, weight_left=True),
        FloatGemm(80, 144, 256, "float8_e4m3fn", "float8_e4m3fn", "float16", x_scale=True),
    ]
    peer = PeerProcesses("floats", "autoq.libraries.float_products:FloatProducts", {}, 120.0, 60.0)
    try:
        (future,) = peer.prepare(layers)
        future.result()
        results = [peer.measure(layer, Timing(repeat=3, cold=cold)) for layer in layers]
    finally:
        peer.close()
    for layer, result in zip(layers, results, strict=True):
        assert isinstance(result, PeerTime), result
        assert 0 < result.seconds < 1e-3
        # Its weights are rounded to 16 bits, and its output once more.
        assert result.max_error < (2e-2 if layer.in_dtype == "bfloat16" else 5e-3)
