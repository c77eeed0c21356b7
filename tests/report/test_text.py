"""Numbers with units, and tables."""

import pytest

from autoq.report.text import clock, counted, counts, duration, share, table, tera


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (3.84e-6, "3.84 us"), (123.4e-6, "123 us"), (0.0123456, "12,346 us")],
)
def test_durations_are_in_microseconds(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "?"), (0.2, "0 s"), (59.4, "59 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_spans_are_for_people(seconds, text):
    assert clock(seconds) == text


def test_shares_rates_and_counts():
    assert (share(0.634), share(None)) == ("63%", "-")
    assert (tera(812.3), tera(0.0214), tera(None)) == ("812", "0.0214", "-")
    assert counts({"timeout": 2, "compile": 7, "runtime": 0}) == "7 compile, 2 timeout"
    assert counts({}) == "none"
    assert [counted(number, "trial") for number in (0, 1, 2)] == ["0 trials", "1 trial", "2 trials"]


def test_a_table_aligns_its_columns():
    text = table(("name", "us"), [("a", 1), ("long", 1000)], left=("name",))
    assert text.splitlines() == ["name    us", "----  ----", "a        1", "long  1000"]
