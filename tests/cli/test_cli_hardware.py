"""`--hardware FILE`, and the row of hardware figures that `autoq env` shows."""

import json

import pytest
from with_nvcc import needs_nvcc

from autoq import devices

TURING = {
    "arch": "sm_75", "product": "NVIDIA GeForce RTX 2080 Ti", "units": 68, "clock_hz": 1.545e9,
    "int8_rate": 215e12, "memory_rate": 616e9,
}  # fmt: skip


@pytest.fixture
def turing(folder, monkeypatch):
    """A file with a row, on a machine without a GPU."""
    monkeypatch.setattr(devices, "device_count", lambda: 0)
    monkeypatch.setattr("autoq.runtime.cuda.driver.device_count", lambda: 0)
    path = folder / "turing.json"
    path.write_text(json.dumps(TURING))
    return path


def lines_of(screen):
    assert screen.code == 0, screen
    return dict(line.split(":", 1) for line in screen.out.splitlines() if ":" in line)


def test_env_shows_the_row_in_use(autoq, turing):
    lines = lines_of(autoq("env"))
    assert lines["hardware"].strip() == "sm_90a, NVIDIA H200 (autoq's own row)"
    assert lines["  multiprocessors"].split()[:3] == ["132", "at", "1.755"]
    assert "65536 registers" in lines["  each holds"]
    assert "232448" in lines["  shared memory"]
    assert "int8 1979" in lines["  tera-ops a second"]
    assert "int4" not in lines["  tera-ops a second"]


def test_env_shows_a_users_row_and_what_it_leaves_unknown(autoq, turing):
    lines = lines_of(autoq("env", "--hardware", turing))
    assert lines["hardware"].strip() == f"sm_75, NVIDIA GeForce RTX 2080 Ti (from {turing})"
    assert lines["  multiprocessors"].split() == ["68", "at", "1.545", "GHz"]
    assert lines["  L2 cache"].strip() == lines["  one more launch"].strip() == "unknown"
    assert lines["  device memory"].strip() == "0.616 TB/s"
    rates = [rate.strip() for rate in lines["  tera-ops a second"].split(",")]
    assert rates == ["int4 unknown", "int8 215", "float16 unknown", "float32 unknown"]


def test_env_goes_on_where_autoq_has_no_row_of_a_gpu(autoq, folder, monkeypatch):
    class Unknown:
        name, arch = "NVIDIA B200", "sm_100"

        def __init__(self, ordinal):
            self.ordinal = ordinal

    for module in ("autoq.devices", "autoq.runtime.cuda.driver"):
        monkeypatch.setattr(f"{module}.device_count", lambda: 1)
        monkeypatch.setattr(f"{module}.Device", Unknown)
    monkeypatch.setattr("autoq.runtime.cuda.driver.driver_version", lambda: "13.0")
    lines = lines_of(autoq("env"))
    assert lines["gpu 0"].strip() == "NVIDIA B200 (sm_100)"
    assert "unknown target 'cuda" in lines["hardware"]


@pytest.mark.parametrize("verb", ["tune", "compile"])
def test_a_row_of_another_target_is_refused(refuses, turing, model, verb):
    refuses(verb, model, "--target", "cpu", "--hardware", turing, "-o", "new",
            words=(str(turing), "the target is 'cpu'"))  # fmt: skip
    refuses(verb, model, "--target", "cuda:sm_80", "--hardware", turing, "-o", "new",
            words=("is of sm_75", "cuda:sm_80"))  # fmt: skip
    refuses(verb, model, "--hardware", "absent.json", "-o", "new", words=("absent.json", "No such"))


def test_tasks_are_those_of_the_files_gpu(autoq, turing, model):
    screen = autoq("tune", model, "--target", "cuda", "--hardware", turing, "--tasks", "list")
    assert screen.code == 0 and "conv2d" in screen.out, screen


@needs_nvcc
def test_compiling_for_the_files_gpu(autoq, turing, model):
    screen = autoq("compile", model, "--target", "cuda", "--hardware", turing, "-o", "m.tar")
    assert screen.code == 0 and "kernels for cuda sm_75" in screen.out, screen
