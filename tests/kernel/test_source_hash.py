"""The hash of a module's source follows its imports, and nothing else."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from autoq.kernel import source_hash as module
from autoq.kernel.source_hash import source_hash
from autoq.templates import TEMPLATES

FILES = {
    "__init__": "",
    "kernel": "import os\nfrom hashed.tile import TILE\n\ndef late():\n    import hashed.late\n",
    "tile": "from hashed import warp\nTILE = 1\n",
    "warp": "WARP = 32\n",
    "late": "",
    "other": "",
}


@pytest.fixture
def hash_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """The hash of `hashed.kernel` once a line was added to a file."""
    folder = tmp_path / "hashed"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))

    def changed(name: str, line: str) -> str:
        with (folder / f"{name}.py").open("a") as file:
            file.write(line)
        module.source_hash.cache_clear()
        return source_hash("hashed.kernel")

    yield changed
    module.source_hash.cache_clear()
    module._source.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "hashed"]:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["kernel", "tile", "warp", "late"])
def test_an_edit_of_anything_imported_changes_it(name, hash_after):
    before = hash_after(name, "")
    assert hash_after(name, "# edited\n") != before


def test_an_edit_of_another_module_does_not(hash_after):
    before = hash_after("other", "")
    assert hash_after("other", "# edited\n") == before


def test_an_edit_of_autoq_changes_it(hash_after, tmp_path, monkeypatch):
    before = hash_after("kernel", "import autoq.templates.arrays.table\n")
    edited, genuine = tmp_path / "edited.py", module._source
    edited.write_text(genuine("autoq.templates.arrays.table").read_text() + "# edited\n")
    found = {"autoq.templates.arrays.table": edited}
    with monkeypatch.context() as patch:
        patch.setattr(module, "_source", lambda name: found.get(name) or genuine(name))
        module.source_hash.cache_clear()
        assert source_hash("hashed.kernel") != before


def test_a_module_without_source_is_refused():
    with pytest.raises(ModuleNotFoundError, match="no source file"):
        source_hash("hashed_nowhere.kernel")


def test_threads_may_ask_at_once() -> None:
    """CPython 3.11 fails when two of them parse and a callback of the garbage collector runs."""
    modules = [found.module for found in TEMPLATES[::3]]
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()

    def busy(*_: object) -> None:
        sum(range(20))

    gc.callbacks.append(busy)
    sys.setswitchinterval(1e-6)
    gc.set_threshold(5)
    try:
        source_hash.cache_clear()
        module._imports.cache_clear()
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(source_hash, modules))
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(busy)
    assert len(set(found)) > 10
    assert found == [source_hash(module) for module in modules]
