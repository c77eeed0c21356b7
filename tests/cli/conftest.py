"""The command line run inside the test process, and the files it is given."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnx
import pytest
from without_processes import without_processes

from autoq.cli import main
from autoq.quantization.quantize import quantize

sys.path.insert(0, str(Path(__file__).parent))
from small_models import small_network


@dataclass(frozen=True)
class Screen:
    """What a command left: its exit code, and what it wrote to stdout and stderr."""

    code: int
    out: str
    err: str

    def is_one_line(self, *words: str) -> bool:
        """Whether this is how a user's mistake must look: one line that has all of `words`."""
        line = self.err.strip()
        assert self.code == 2, self
        assert self.out == "", self
        assert line.startswith("autoq: ") and len(line.splitlines()) == 1, self
        missing = [word for word in words if word not in line]
        assert not missing, f"{missing} missing from: {line}"
        return True


Run = Callable[..., Screen]


@pytest.fixture(scope="session")
def kernel_cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def folder(tmp_path, monkeypatch, kernel_cache) -> Path:
    """An empty working folder, with the kernel cache elsewhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOQ_CACHE_DIR", str(kernel_cache))
    monkeypatch.setenv("TVM_NUM_THREADS", "2")
    return tmp_path


@pytest.fixture
def autoq(folder, monkeypatch, capfd) -> Run:
    """Runs `autoq` with the given arguments, in no other process."""

    def run(*arguments: object) -> Screen:
        monkeypatch.setattr(sys, "argv", ["autoq", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended, without_processes():
            main()
        captured = capfd.readouterr()
        return Screen(ended.value.code, captured.out, captured.err)

    return run


@pytest.fixture
def refuses(autoq, folder) -> Callable[..., None]:
    """Checks that a command is refused in one line with `words` and leaves no file behind."""

    def check(*arguments: object, words: tuple[str, ...]) -> None:
        before = _files(folder)
        assert autoq(*arguments).is_one_line(*words)
        assert _files(folder) == before

    return check


def _files(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture(scope="session")
def float_model(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("models") / "small.onnx"
    onnx.save(small_network(), str(path))
    return path


@pytest.fixture(scope="session")
def model(float_model) -> Path:
    """The small network in int8."""
    path = float_model.with_name("small.int8.onnx")
    quantize(float_model, None, path)
    return path


@pytest.fixture(scope="session")
def artifact(model, kernel_cache) -> Path:
    """The small network compiled for this CPU, untuned."""
    from autoq import compile

    path = model.with_name("small.tar")
    compile(model, target="cpu", output=path, cache_dir=kernel_cache / "kernels")
    return path


@pytest.fixture(scope="session")
def records(model, kernel_cache) -> Path:
    """What tuning the small network for this CPU left."""
    from autoq import tune

    path = model.with_name("small.jsonl")
    with without_processes():
        tune(model, trials=8, output=path, target="cpu", cache_dir=kernel_cache / "kernels", jobs=2)
    return path
