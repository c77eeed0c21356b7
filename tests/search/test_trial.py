from __future__ import annotations

from math import inf, nan

import pytest

from autoq.errors import AutoqError
from autoq.search.trial import FAILURES, Trial


@pytest.mark.parametrize("failure", FAILURES)
def test_a_trial_has_seconds_or_a_failure(failure):
    assert Trial("c", seconds=1e-3).failure is None
    assert Trial("c", failure=failure).seconds is None


@pytest.mark.parametrize(
    ("seconds", "failure"),
    [(None, None), (1.0, "compile"), (0.0, None), (-1.0, None), (inf, None), (nan, None)],
)
def test_anything_else_is_refused(seconds, failure):
    with pytest.raises(AutoqError, match="trial"):
        Trial("c", seconds=seconds, failure=failure)


def test_unknown_failure_is_refused():
    with pytest.raises(AutoqError, match="'crash' is not one of"):
        Trial("c", failure="crash")
