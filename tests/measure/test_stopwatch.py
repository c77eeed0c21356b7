"""Timings in a row and in turn, with a clock that is made up."""

from autoq.measure.job import Timing
from autoq.measure.stopwatch import Stopwatch, added, in_turn, timings
from autoq.measure.worker import measured


class Device:
    """Kernels of known length on a device that becomes `slower` at some timing."""

    def __init__(self, slow_from=10**9, slow_until=10**9):
        self.order = []
        self._slow = range(slow_from, slow_until)

    def watch(self, name, seconds, launches=10):
        def once():
            self.order.append(name)
            return seconds * launches * (4 if len(self.order) - 1 in self._slow else 1)

        return Stopwatch(launches, once)


def test_timings_are_of_one_launch_and_end_with_the_budget():
    device = Device()
    assert timings(device.watch("a", 2.0), Timing(repeat=5, budget_seconds=1e9)) == [2.0] * 5
    assert len(timings(device.watch("a", 2.0), Timing(repeat=50, budget_seconds=100.0))) == 6
    assert len(timings(device.watch("a", 2.0), Timing(repeat=50, budget_seconds=0.1))) == 3


def test_what_a_launch_adds_to_those_of_others():
    """Three others of 5 s each, and behind each of them one that adds 2 s."""
    device = Device()
    among, without = device.watch("with", 21.0 / 6, launches=6), device.watch("without", 5.0, 3)
    assert timings(added(among, without), Timing(repeat=2)) == [2.0] * 2
    assert device.order == ["with", "without"] * 2


def test_each_turn_times_every_kernel_and_begins_with_another():
    device = Device()
    watches = [
        device.watch(name, seconds) for name, seconds in (("a", 1.0), ("b", 2.0), ("c", 3.0))
    ]
    found = in_turn(watches, Timing(repeat=4, budget_seconds=1e9))
    assert found == [[1.0] * 4, [2.0] * 4, [3.0] * 4]
    assert "".join(device.order) == "abc" + "bca" + "cab" + "abc"


def test_every_timing_of_a_turn_comes_behind_an_equal_rest_and_a_run_that_does_not_count():
    device = Device()
    watches = [device.watch(name, 1.0) for name in "ab"]
    rest = Timing(repeat=2, budget_seconds=1e9, rest_seconds=0.25)
    in_turn(watches, rest, lambda seconds: device.order.append(seconds))
    assert device.order == [0.25, *"aa", 0.25, *"bb", 0.25, *"bb", 0.25, *"aa"]
    device.order.clear()
    in_turn(watches, Timing(repeat=1), lambda seconds: device.order.append(seconds))
    assert device.order == ["a", "b"]


def test_a_slow_moment_meets_all_kernels_of_a_comparison():
    """In a row, the better kernel would lose by it."""
    device = Device(slow_from=0, slow_until=8)
    better, worse = device.watch("better", 1.0), device.watch("worse", 1.5)
    timing = Timing(repeat=9, budget_seconds=1e9)
    one, other = (sorted(seconds)[4] for seconds in in_turn([better, worse], timing))
    assert one < other
    device.order.clear()
    one, other = (sorted(timings(watch, timing))[4] for watch in (better, worse))
    assert one > other


def test_times_below_0_are_no_times():
    assert measured([2.0, -1.0, 4.0, 3.0]).seconds == 3.0
    busy = measured([-1.0, 0.0])
    assert busy.seconds is None and busy.failure == "runtime" and "busy" in busy.message
