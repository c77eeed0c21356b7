"""Which constants the kernels of a network ask for ahead of those that read them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from sound_artifact import artifact

from autoq.compilation.ahead import asking_calls, asks_ahead
from autoq.graph.ir import Layer
from autoq.runtime.plan import ALIGNMENT, Slot
from autoq.templates.target import parse_target

HOPPER = parse_target("cuda:sm_90a")
LAYER = SimpleNamespace(node=Layer.__new__(Layer))
ROWS = SimpleNamespace(node=object())


def test_each_call_asks_for_what_the_next_layer_reads() -> None:
    """Constants that lie together are one run; of rows, and behind the last call, there is none."""
    first, second, last = artifact().plan.calls
    more = (Slot("constant", 1024, (300,), "int8"), Slot("constant", 1536, (64,), "int8"))
    second = second.__class__(**{**vars(second), "arguments": (*second.arguments, *more)})
    asking = asking_calls((first, second, last), (LAYER, LAYER, ROWS))
    places = [[slot.offset for slot in call.arguments[:2]] for call in asking]
    assert places == [[1024, 1536], [0, 0], [0, 0]]
    assert all(slot.offset % ALIGNMENT == 0 for call in asking for slot in call.arguments[:2])
    assert [call.arguments[2:] for call in asking] == [
        call.arguments for call in (first, second, last)
    ]


def test_networks_that_stay_in_the_cache_do_not_ask() -> None:
    def graph(size: int) -> SimpleNamespace:
        return SimpleNamespace(nodes=[SimpleNamespace(constants=(np.zeros(size, np.int8),))])

    assert asks_ahead(graph(HOPPER.l2_bytes + 1), HOPPER)
    assert not asks_ahead(graph(HOPPER.l2_bytes), HOPPER)
    assert not asks_ahead(graph(1 << 27), parse_target("cuda:sm_80"))
    assert not asks_ahead(graph(1 << 27), parse_target("cpu"))
