"""The documents: their links lead somewhere, and they keep to what they promise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTES = sorted((ROOT / "docs" / "notes").glob("*.md"))
FOLDERS = ("docs", "docs/notes", ".", "search", "templates", "tuning_logs", "scripts/results")
DOCUMENTS = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.md"))]


def without_code(text: str) -> str:
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


def anchors(path: Path) -> set[str]:
    """Names by which the headings of a document are reached, as GitHub makes them."""
    headings = re.findall(r"(?m)^#+ (.+)$", path.read_text())
    return {re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") for text in headings}


def dead_links(path: Path) -> list[str]:
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(path.read_text())):
        target, _, anchor = link.partition("#")
        goal = path.parent / target if target else path
        if "://" not in link and not (goal.exists() and (not anchor or anchor in anchors(goal))):
            dead.append(link)
    return dead


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    assert dead_links(path) == []


def test_dead_links_are_found(tmp_path):
    (tmp_path / "b.md").write_text("# One `b`: two\n")
    (tmp_path / "a.md").write_text("[](b.md) [](b.md#one-b-two) [](b.md#three) [](c.md) `[](d)`")
    assert dead_links(tmp_path / "a.md") == ["b.md#three", "c.md"]


def test_results_are_explained_and_those_that_are_explained_exist():
    folder = ROOT / "scripts" / "results"
    text = (folder / "README.md").read_text()
    named = set(re.findall(r"`([\w.]+\.json)`", text))
    assert named == {path.name for path in folder.glob("*.json")}


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200


@pytest.mark.parametrize("path", NOTES, ids=lambda path: path.name)
def test_a_note_ends_in_what_is_open(path):
    last = path.read_text().split("\n## ")[-1]
    assert last.startswith("Still open\n\n- ")
