"""Peers in processes of their own: one that fails costs its own layer only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bench_conv import start, versions_of
from peers.layer import Layer, layer_of
from peers.worker import PeerProcesses

from autoq.libraries.ranking import PeerTime
from autoq.measure.job import Timing
from autoq.templates.operators.conv2d import Conv2d

OPTIONS = {"refused": 32, "deadly": 48, "declined": 64}
WORKLOADS = [Conv2d(1, 4, 4, 16, k, 1, 1) for k in (16, 32, 48, 64, 80)]


def _peer(name: str, options: dict[str, int], size: int) -> PeerProcesses:
    return PeerProcesses("fake", f"fake_peers:{name}", options, 60.0, 60.0, size)


@pytest.fixture(params=[1, 2])
def peer(request: pytest.FixtureRequest) -> Iterator[PeerProcesses]:
    processes = _peer("FakePeer", OPTIONS, request.param)
    yield processes
    processes.close()


def _layers() -> list[Layer]:
    return [layer_of(workload) for workload in WORKLOADS]


def test_every_layer_gets_a_time_a_reason_or_none(peer: PeerProcesses) -> None:
    assert versions_of(start([peer], WORKLOADS)) == {"fake": "1.2"}
    right, refused, deadly, declined, after = (peer.measure(x, Timing()) for x in _layers())
    assert isinstance(right, PeerTime) and right.seconds == 16e-6
    assert isinstance(refused, str) and "no plan fits" in refused
    assert isinstance(deadly, str) and "exited 3" in deadly
    assert declined is None
    assert isinstance(after, PeerTime)


def test_absent_peer_is_named_with_its_reason() -> None:
    peer = _peer("AbsentPeer", {}, 1)
    try:
        versions = versions_of(start([peer], WORKLOADS[:1]))
    finally:
        peer.close()
    assert versions["fake"].startswith("missing") and "libfake was not found" in versions["fake"]
