"""What is written while tuning, on a terminal and elsewhere."""

import dataclasses
import io
from collections import Counter

import pytest

from autoq.report.events import Notice, TaskRow, TrialsMeasured, TuneStarted, TuneSummary
from autoq.report.progress import LiveProgress, PlainProgress, progress
from autoq.report.tables import summary_table, tasks_table
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d

CONV = Conv2d(8, 56, 56, 64, 64, 3, 3, padding=(1, 1, 1, 1), epilogue=Epilogue("int8", "uint8"))
ROW = TaskRow(4, CONV, 3, ("conv1",), 32, 3.8e-6, "halo", {"tile": 8}, 0.25, Counter(compile=5))
NOTHING = TaskRow(5, CONV, 1, ("conv2",), 8, failures=Counter(timeout=8))


def _measured(done):
    return TrialsMeasured(ROW, 2, 7, done, 500, Counter(compile=5, timeout=1), 61.0, 125.0)


STARTED = TuneStarted("NVIDIA H200", 7, 500, 32, 12, {"of device X, not NVIDIA H200": 3})
SUMMARY = TuneSummary("log.jsonl", "NVIDIA H200", (ROW, NOTHING), 40, 99.0, "interrupted",
                      {"torn last line": 1})  # fmt: skip


@pytest.fixture
def plain():
    stream, now = io.StringIO(), [0.0]
    return PlainProgress(stream, clock=lambda: now[0]), stream, now


def test_plain_lines_carry_what_a_person_waits_for(plain):
    show, stream, _ = plain
    with show:
        show(STARTED)
        show(_measured(32))
    first, second = stream.getvalue().splitlines()
    for part in ("7 tasks", "NVIDIA H200", "500 trials", "32 of them", "12 records", "3 of device"):
        assert part in first
    for part in ("task 2 of 7", "#4", "N8 3x3 56x56x64->64", "32 trials", "3.8 us",
                 "487 TOPS", "25% of roofline", "32/500", "5 compile, 1 timeout",
                 "2 min 5 s left"):  # fmt: skip
        assert part in second


def test_plain_lines_come_seldom_but_the_last_always(plain):
    show, stream, now = plain
    for done in range(1, 501):
        now[0] += 0.1
        show(_measured(done))
    assert 8 <= len(stream.getvalue().splitlines()) <= 12
    assert "500/500" in stream.getvalue().splitlines()[-1]


def test_a_file_gets_plain_lines_and_a_terminal_a_live_display():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    assert isinstance(progress(io.StringIO()), PlainProgress)
    terminal = Terminal()
    show = progress(terminal)
    assert isinstance(show, LiveProgress)
    with show:
        show(STARTED)
        show(_measured(32))
        show(SUMMARY)
    assert "interrupted after" in terminal.getvalue() and "500 trials" in terminal.getvalue()


@pytest.mark.parametrize("display", [PlainProgress, LiveProgress])
def test_a_notice_is_a_line_of_its_own(display):
    stream = io.StringIO()
    with display(stream) as show:
        show(STARTED)
        show(Notice("log.jsonl: was deleted"))
    assert "log.jsonl: was deleted" in stream.getvalue().splitlines()


def test_the_summary_names_totals_failures_and_unsolved_tasks():
    text = summary_table(SUMMARY)
    for part in ("interrupted after 1 min 39 s on NVIDIA H200", "40 trials measured",
                 "8 timeout, 5 compile", "together: 11.4 us", "log.jsonl",
                 "without a working kernel yet: 1 of 2 tasks (5)", "1 torn last line"):  # fmt: skip
        assert part in text
    assert "not reached" not in text and "in turn" not in text


def test_a_task_without_a_trial_is_on_its_untuned_default():
    untried = TaskRow(6, CONV, 1, ("conv3",))
    text = summary_table(dataclasses.replace(SUMMARY, rows=(ROW, untried)))
    assert text.splitlines()[3].endswith("untuned default")
    assert "not reached, on their untuned default: 1 of 2 tasks (6)" in text
    assert "without a working kernel" not in text and "of the measured tasks together" in text


def test_the_summary_sets_what_was_tuned_beside_the_untuned_default():
    tuned = dataclasses.replace(ROW, default_seconds=5e-6)
    kept = dataclasses.replace(ROW, index=5, workload=dataclasses.replace(CONV, k=128), count=1,
                               default_seconds=ROW.seconds, untuned=True)  # fmt: skip
    unsettled = dataclasses.replace(kept, index=6, workload=dataclasses.replace(CONV, k=32),
                                    unsettled=True, untuned=False)  # fmt: skip
    text = summary_table(dataclasses.replace(SUMMARY, rows=(tuned, kept, unsettled)))
    assert "together: 19 us, untuned 22.6 us" in text
    assert text.splitlines()[3].endswith("halo (default)")
    assert "not yet compared with their default in turn" in text and "1 of 3 tasks (6)" in text


def test_a_comparison_says_what_the_default_takes(plain):
    show, stream, _ = plain
    compared = dataclasses.replace(_measured(32), compared=True)
    row = dataclasses.replace(ROW, default_seconds=5e-6)
    show(dataclasses.replace(compared, task=row))
    assert "compared in turn with the untuned default (5 us)" in stream.getvalue()


def test_a_convolution_in_several_layouts_counts_once():
    blocked = dataclasses.replace(ROW, workload=CONV.laid_out()[3], seconds=2e-6)
    other = dataclasses.replace(ROW, workload=dataclasses.replace(CONV, k=128), seconds=1e-6)
    summary = dataclasses.replace(SUMMARY, rows=(ROW, blocked, other))
    assert summary.total_seconds == pytest.approx(3 * 2e-6 + 3 * 1e-6)


def test_the_list_of_tasks_has_shapes_dtypes_and_the_best_record():
    text = tasks_table([TaskRow(0, CONV, 3, (), 9, 3.8e-6, "halo", {}, 0.25, source="old.jsonl")])
    row = text.splitlines()[2]
    for part in ("conv2d", "8x56x56x64 -> 8x56x56x64", "int8 int8 int8 +uint8", " 3 ", "1.85",
                 "3.8 us", "25%", "halo", "old.jsonl"):  # fmt: skip
        assert part in row
