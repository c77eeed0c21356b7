"""Expressions of kernels: the same IR, places in the source and complaints as TVM's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import tvm
from tvm.script import tirx as T

from autoq.kernel.tvm_script import SHORT_CUTS


class Knobs:
    """What a kernel asks at compile time."""

    depth, names = 3, {"left": 1, "right": 2}
    pair = (4, 5)

    def scaled(self, value: Any, by: int = 2, *, plus: Any = 0) -> Any:
        return value * by + plus

    def __getitem__(self, index: Any) -> Any:
        return index

    def step(self, index: Any) -> int:
        """Of a slice, also one among others."""
        last = index[-1] if isinstance(index, tuple) else index
        return 7 if last.step is None else last.step

    @property
    def broken(self) -> int:
        raise ValueError("no such knob")


KNOBS = Knobs()


@contextmanager
def as_tvm_does() -> Iterator[None]:
    """Without the short cuts."""
    quick = [(owner, name, getattr(owner, name)) for owner, name, _ in SHORT_CUTS]
    try:
        for owner, name, function in quick:
            setattr(owner, name, function.__wrapped__)
        yield
    finally:
        for owner, name, function in quick:
            setattr(owner, name, function)


def every_form() -> Any:
    @T.prim_func
    def main(a_ptr: T.handle, n: T.int32) -> None:
        a = T.match_buffer(a_ptr, (8, 8), "float32")
        T.device_entry()
        block = T.cta_id([2])
        lane = T.lane_id([32])
        b = T.alloc_local((8,), "float32")
        first, second = T.meta_var(KNOBS.pair)
        places = T.meta_var([2 * i + 1 for i in range(KNOBS.depth)])
        chosen = T.meta_var("left" if KNOBS.depth > 2 else "right")
        more = T.meta_var({"plus": -lane})
        index: T.int32 = KNOBS.scaled(block, 3, plus=lane % 4 + KNOBS.names[chosen])
        other: T.int32 = KNOBS.scaled(*(lane, 2), **more)
        if (lane < 4 and block == 0) or not (n >= 2):
            b[index % 8] = a[lane % 8, second - first] * T.float32(2)
        if 0 < KNOBS.depth < 9 and KNOBS.depth != 4:
            b[places[1]] = T.if_then_else(other > ~n, b[0], T.float32(0)) - b[len(places)]
        b[KNOBS.step(KNOBS[0:4])] = b[KNOBS.step(KNOBS[3, 1:4]) + KNOBS.step(KNOBS[1:])]
        taken = T.meta_var(index if lane == 3 else other)
        b[taken & 7] = T.cast(taken << 1 | 1, "float32")
        for i in T.unroll(min(KNOBS.depth, 2) if KNOBS.depth > 0 else 0):
            a[i, (index + i) // 2 % 8] = b[i] + T.max(b[i + 1], T.float32(0.5))

    return main


def test_every_form_of_an_expression_gives_the_same_kernel() -> None:
    quick = tvm.ir.save_json(every_form())
    with as_tvm_does():
        slow = tvm.ir.save_json(every_form())
    assert str(quick) == str(slow)


def _mistakes() -> list[Callable[[], Any]]:
    def operator() -> None:
        @T.prim_func
        def main() -> None:
            T.evaluate(KNOBS.names - 1)

    def quotient() -> None:
        @T.prim_func
        def main() -> None:
            T.evaluate(KNOBS.depth // 0)

    def knob() -> None:
        @T.prim_func
        def main() -> None:
            T.evaluate(KNOBS.broken + 1)

    def argument() -> None:
        @T.prim_func
        def main() -> None:
            T.evaluate(KNOBS.scaled(1, of=2))

    def condition() -> None:
        @T.prim_func
        def main(n: T.int32) -> None:
            T.evaluate(1 if n else 2)

    return [operator, quotient, knob, argument, condition]


@pytest.mark.parametrize("mistake", _mistakes(), ids=lambda mistake: mistake.__name__)
def test_what_fails_is_said_as_before(
    mistake: Callable[[], Any], capfd: pytest.CaptureFixture[str]
) -> None:
    def complaint() -> tuple[str, str, str]:
        with pytest.raises(Exception) as raised:
            mistake()
        printed = capfd.readouterr()
        return type(raised.value).__name__, str(raised.value), printed.out + printed.err

    quick = complaint()
    with as_tvm_does():
        assert quick == complaint()
    assert quick[1] or quick[2]
