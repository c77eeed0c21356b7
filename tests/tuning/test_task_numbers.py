"""The --tasks option."""

import pytest

from autoq.errors import InputError
from autoq.tuning.task_numbers import task_numbers


@pytest.mark.parametrize(
    ("text", "chosen"),
    [("all", [0, 1, 2, 3, 4, 5]), ("0,2-5", [0, 2, 3, 4, 5]), ("3", [3]), (" 4 , 1-1,4", [1, 4])],
)
def test_numbers_and_ranges(text, chosen):
    assert task_numbers(text, 6) == chosen


@pytest.mark.parametrize("text", ["", "6", "0-6", "5-2", "a", "1,,2", "-1", "list", "1-2-3", "²"])
def test_anything_else_is_refused_with_the_option_and_the_text(text):
    with pytest.raises(InputError, match="--tasks"):
        task_numbers(text, 6)
