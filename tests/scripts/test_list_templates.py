"""The page of templates is what the code gives, and the code says all of it in words."""

from __future__ import annotations

import list_templates
import pytest
from list_templates import Entry

from autoq.templates.registry import TEMPLATES


@pytest.fixture(scope="module")
def found() -> list[Entry]:
    return list_templates.entries(TEMPLATES, list_templates.cases())


def test_the_page_is_what_the_code_gives(found):
    written = list_templates.PAGE.read_text()
    assert written == list_templates.page(found), "run python scripts/list_templates.py"


def test_every_template_is_seen_at_work(found):
    assert [entry.template for entry in found if not entry.targets] == []


def test_every_knob_and_every_rule_is_put_in_words(found):
    for entry in found:
        name = entry.template.name
        assert list_templates.first_paragraph(entry.template.computes), name
        without = [knob for knob, (_, meaning) in entry.knobs.items() if not meaning]
        without += [
            rule for rule, says in entry.rules.items() if not rule.isidentifier() or not says
        ]
        assert not without, f"{name}: {without} need a line in a docstring"


def test_what_templates_share_is_told_once(found):
    text = list_templates.page(found)
    assert text.count("- `rows_fit_one_box`:") == 1
    assert "All rules of `gemm_wgmma` hold, and\n\n- `tile_divides_among_team`:" in text
    assert "Its other knobs are those of `conv2d_swapped`: `row_bytes`," in text
