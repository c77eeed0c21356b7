"""The tables of the documents say what the files of the benchmarks say."""

from __future__ import annotations

import copy

import performance_tables
import pytest
from performance_tables import DOCUMENTS, RESULTS, load, replaced, sections, written


@pytest.fixture(scope="module")
def results():
    return load(RESULTS)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_the_documents_are_what_the_results_give(results, path):
    text = path.read_text()
    made = written(text, DOCUMENTS[path], results)
    assert text == made, "run python scripts/performance_tables.py"


def test_tables_follow_their_results(results):
    changed = copy.deepcopy(results)
    changed["resnet50_h200"]["cases"][0] |= {"autoq_us": 123456.0, "max_error_steps": 3.2}
    compared = [row for row in changed["conv_h200"]["cases"] if row["speedup"] is not None]
    for row in compared[1:]:
        row["speedup"] = 1.5
    compared[0]["speedup"] = 0.9
    won = len(compared) - 1
    texts = sections(changed)
    assert "| 1 | 123,456 |" in texts["SUMMARY"]
    assert f"{won} of {won + 1} distinct" in " ".join(texts["SUMMARY"].split())
    assert "3 against onnxruntime" in texts["NETWORKS"]
    assert f"every peer in {won}. The others: " in texts["CONVOLUTIONS"]


def test_a_case_that_was_not_measured_is_left_out(results):
    changed = copy.deepcopy(results)
    rows = changed["movement_h200"]["rows"]
    rows[:] = [row for row in rows if row["case"] != performance_tables.MOVEMENT[0]]
    text = sections(changed)["MOVEMENT"]
    assert performance_tables.MOVEMENT[0] not in text and performance_tables.MOVEMENT[1] in text


def test_only_what_lies_between_the_marks_is_replaced():
    document = "before\n<!-- A -->\nold\n<!-- /A -->\nafter\n"
    assert replaced(document, "A", "new") == document.replace("old", "new")
    with pytest.raises(ValueError, match="lacks the marks"):
        replaced("no marks", "A", "new")
