"""Arena offsets: no two buffers that are alive together overlap, and the arena is small."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from autoq.runtime.arena import Lifetime, plan_offsets
from autoq.runtime.plan import ALIGNMENT

lifetimes = st.lists(
    st.builds(
        lambda size, first, length: Lifetime(size, first, first + length),
        st.integers(0, 5000),
        st.integers(-1, 20),
        st.integers(0, 8),
    ),
    max_size=25,
)


@given(lifetimes)
def test_living_buffers_never_overlap(items: list[Lifetime]) -> None:
    offsets, size = plan_offsets(items)
    spans = list(zip(items, offsets, strict=True))
    for index, (one, start) in enumerate(spans):
        assert start % ALIGNMENT == 0 and start + one.bytes <= size
        for other, begin in spans[index + 1 :]:
            if one.first <= other.last and other.first <= one.last:
                apart = start + max(one.bytes, 1) <= begin or begin + max(other.bytes, 1) <= start
                assert apart


def test_a_chain_needs_two_buffers() -> None:
    chain = [Lifetime(1024, call, call + 1) for call in range(10)]
    _, size = plan_offsets(chain)
    assert size == 2 * 1024


def test_nothing_needs_nothing() -> None:
    assert plan_offsets([]) == ([], 0)


def test_ten_thousand_buffers_are_placed_in_seconds() -> None:
    started = time.process_time()
    chain = [Lifetime(1024, call, call + 1) for call in range(10_000)]
    assert plan_offsets(chain)[1] == 2 * 1024
    assert time.process_time() - started < 8
