"""How warps of the emulator go: apart and together again, reading each other, in clusters."""

from __future__ import annotations

import numpy as np
import pytest

from autoq.runtime.kernel import Buffer, Launch
from ptx.emulate import EmulationFault, Memory, Mode, launch

MODES = [Mode(), Mode(late=True, seed=3)]


def run(
    body: str, mode: Mode = MODES[0], blocks: int = 1, threads: int = 32, cluster: int = 1
) -> np.ndarray:
    """What each thread leaves in %out, by block."""
    count = blocks * threads
    ptx = (
        ".visible .entry k(.param .u64 k_param_0) { .reg .pred %p<9>; .reg .b32 %r<9>, %out, %t;"
        " .reg .b64 %to, %x<4>; .shared .align 8 .b8 box[64]; mov.u32 %t, %tid.x; mov.u32 %out, 0;"
        f" {body} mov.u32 %r0, %ctaid.x; mad.lo.u32 %t, %r0, {threads}, %t;"
        " ld.param.u64 %to, [k_param_0]; mad.wide.u32 %to, %t, 4, %to;"
        " st.global.u32 [%to], %out; ret; }"
    )
    memory = Memory(np.zeros(count, np.uint32), True)
    shape = (blocks, 1, 1), (threads, 1, 1), (cluster, 1, 1)
    launch(ptx, Launch("k", *shape, 0, (Buffer(0),)), [memory], mode)
    return memory.bytes.view(np.uint32).reshape(blocks, threads)


@pytest.mark.parametrize("mode", MODES)
def test_lanes_that_loop_differently_meet_again(mode: Mode) -> None:
    """Lane t goes round t times; the shuffle behind the loop takes them all."""
    body = (
        "mov.u32 %r1, 0; L: setp.ge.u32 %p1, %r1, %t; @%p1 bra D; add.u32 %r1, %r1, 1; bra L; D:"
        " shfl.sync.bfly.b32 %out, %r1, 1, 31, -1;"
    )
    np.testing.assert_array_equal(run(body, mode)[0], np.arange(32) ^ 1)


SHUFFLES = {
    "shfl.sync.up.b32 %out, %t, 3, 0, -1;": lambda t: np.where(t < 3, t, t - 3),
    "shfl.sync.down.b32 %out, %t, 3, 31, -1;": lambda t: np.where(t > 28, t, t + 3),
    "shfl.sync.idx.b32 %out, %t, 5, 0x181f, -1;": lambda t: t // 8 * 8 + 5,
    "shfl.sync.down.b32 %out|%p1, %t, 1, 0x181f, -1; selp.b32 %out, %out, 99, %p1;": lambda t: (
        np.where(t % 8 == 7, 99, t + 1)
    ),
    "setp.gt.u32 %p1, %t, 29; vote.sync.ballot.b32 %out, %p1, -1;": lambda t: t * 0 + (3 << 30),
    "shr.u32 %r1, %t, 2; match.any.sync.b32 %out, %r1, -1;": lambda t: 15 << t // 4 * 4,
    "redux.sync.max.u32 %out, %t, -1;": lambda t: t * 0 + 31,
    "elect.sync %r1|%p1, 0xfff0; selp.b32 %out, 1, 0, %p1;": lambda t: (t == 4) * 1,
}


@pytest.mark.parametrize("text", SHUFFLES)
def test_lanes_read_each_other(text: str) -> None:
    np.testing.assert_array_equal(run(text)[0], SHUFFLES[text](np.arange(32)))


@pytest.mark.parametrize("mode", MODES)
def test_blocks_of_a_cluster_write_to_each_other(mode: Mode) -> None:
    """Each block waits for the bytes that the next one sends, and sees all of them."""
    body = (
        "mov.u32 %r1, box; setp.ne.u32 %p1, %t, 0; @%p1 bra READY;"
        " mbarrier.init.shared.b64 [%r1], 1; mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 4;"
        " fence.mbarrier_init.release.cluster; READY: barrier.cluster.arrive;"
        " barrier.cluster.wait; mov.u32 %r2, %cluster_ctarank; add.u32 %r3, %r2, 3;"
        " and.b32 %r3, %r3, 3; mapa.shared::cluster.u32 %r4, %r1, %r3; add.u32 %r5, %r4, 8;"
        " add.u32 %r6, %r2, 70; @%p1 bra SENT;"
        " st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r5], %r6, [%r4];"
        " SENT: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0; @!%p2 bra SENT;"
        " ld.shared.u32 %out, [%r1+8];"
    )
    found = run(body, mode, blocks=8, cluster=4)
    expected = [71, 72, 73, 70] * 2
    np.testing.assert_array_equal(found, np.repeat(expected, 32).reshape(8, 32))


def test_each_arrival_knows_how_many_were_pending() -> None:
    """Four warps arrive at an mbarrier twice: in each phase one of them is the last."""
    body = (
        "mov.u32 %r1, box; setp.ne.u32 %p1, %t, 0; @%p1 bra READY;"
        " mbarrier.init.shared.b64 [%r1], 4; READY: bar.sync 0; and.b32 %r2, %t, 31;"
        " setp.ne.u32 %p2, %r2, 0; @%p2 bra END; mbarrier.arrive.shared.b64 %x1, [%r1];"
        " mbarrier.pending_count.b64 %out, %x1; W: mbarrier.test_wait.shared.b64 %p3, [%r1], %x1;"
        " @!%p3 bra W; mbarrier.arrive.shared::cta.b64 %x2, [%r1];"
        " mbarrier.pending_count.b64 %r3, %x2; mad.lo.u32 %out, %r3, 10, %out; END:"
    )
    found = run(body, threads=128)[0, ::32]
    assert sorted(found % 10) == sorted(found // 10) == [1, 2, 3, 4]


def test_a_block_that_waits_for_a_later_one_lets_it_start() -> None:
    """Semaphores in global memory: the first block spins until the last one has written."""
    body = (
        "mov.u32 %r1, %ctaid.x; ld.param.u64 %x1, [k_param_0]; setp.ne.u32 %p1, %r1, 0;"
        " @%p1 bra OTHER; L: ld.acquire.gpu.global.u32 %r2, [%x1+636]; setp.eq.u32 %p2, %r2, 0;"
        " @%p2 bra L; OTHER: mov.u32 %out, 7;"
    )
    assert (run(body, blocks=5) == 7).all()


def test_only_some_lanes_at_a_barrier_are_told() -> None:
    with pytest.raises(EmulationFault, match="only some lanes"):
        run("setp.lt.u32 %p1, %t, 3; @%p1 bar.sync 0;")
