"""Choosing among a peer's ways to compute a layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autoq.errors import LibraryError
from autoq.libraries import ranking
from autoq.libraries.ranking import Way, fastest
from autoq.measure.job import Timing


class _Device:
    def synchronize(self) -> None: ...


class _Output:
    """Device memory that is really on the host; a launch writes into it."""

    def __init__(self) -> None:
        self.array = np.zeros(4, np.int8)
        self.size = 4

    def fill(self, byte: int) -> None:
        self.array.view(np.uint8).fill(byte)

    def read(self, target: np.ndarray) -> None:
        target[...] = self.array


EXPECTED = np.array([1, -2, 3, -4], np.int8)


def _way(name: str, seconds: float, result: list[int], form: str = "") -> Way:
    output: Any = _Output()
    times[name] = seconds

    def launch(index: int) -> None:
        output.array[: len(result)] = result

    def check(y: np.ndarray) -> int:
        return int(np.abs(y.astype(int) - EXPECTED).max())

    return Way(name, form, launch, check, output)


times: dict[str, float] = {}


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    def median(way: Way, stream: Any, timing: Timing) -> float:
        if times[way.name] < 0:
            raise LibraryError("cannot be captured")
        return times[way.name]

    monkeypatch.setattr(ranking, "_median", median)


def _fastest(ways: list[Way]) -> Any:
    stream: Any = None
    device: Any = _Device()
    return fastest(ways, stream, device, Timing())


def test_fast_but_wrong_ways_lose() -> None:
    found = _fastest(
        [
            _way("right", 5.0, [1, -2, 3, -4]),
            _way("wrong", 1.0, [1, -2, 3, 90]),
            _way("partial", 2.0, [1, -2, 3]),  # leaves poison in the last element
            _way("fails", -1.0, []),
            _way("one step off", 4.0, [1, -2, 3, -5], form="other"),
        ]
    )
    assert (found.seconds, found.max_error) == (4.0, 1.0)
    assert found.what == "other, one step off"
    assert found.tried == 4
    assert found.others == {"": 5.0}


def test_nothing_right_says_why() -> None:
    with pytest.raises(LibraryError, match="wrong is wrong by 94"):
        _fastest([_way("wrong", 1.0, [1, -2, 3, 90])])
    with pytest.raises(LibraryError, match="cannot be captured"):
        _fastest([_way("fails", -1.0, [])])
