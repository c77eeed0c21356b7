"""The row of a user's own GPU: what a file may say, and one line for each mistake in it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autoq import devices
from autoq.errors import InputError, TargetError
from autoq.hardware_file import read_hardware
from autoq.templates.hardware import HARDWARE
from autoq.templates.target import parse_target

RTX_4090 = {
    "arch": "sm_89", "product": "NVIDIA GeForce RTX 4090", "units": 128, "clock_hz": 2.52e9,
    "l2_bytes": 75497472, "memory_rate": 1.008e12, "int4_rate": 1321e12, "int8_rate": 660.6e12,
    "float16_rate": 165.2e12, "float32_rate": 82.6e12,
}  # fmt: skip


def written(folder: Path, value: Any) -> Path:
    path = folder / "gpu.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "device_count", lambda: 0)


def test_a_file_takes_the_place_of_the_architectures_row(tmp_path: Path) -> None:
    path = written(tmp_path, RTX_4090)
    arch, row = read_hardware(path)
    target = parse_target("cuda:sm_89", (arch, row))
    for name, value in RTX_4090.items():
        assert getattr(target, name) == value
    known = HARDWARE["sm_89"]
    for name in ("smem_bytes", "reserved_smem_bytes", "register_file", "unit_threads"):
        assert getattr(target, name) == getattr(known, name)
    assert target.source == str(path) and target.sparse_factor == known.sparse_factor
    assert hash(target) != hash(parse_target("cuda:sm_89"))


def test_what_a_file_leaves_out_is_unknown_and_the_roofline_says_so(tmp_path: Path) -> None:
    row = {name: RTX_4090[name] for name in ("arch", "product", "units", "int8_rate")}
    target = parse_target("cuda", read_hardware(written(tmp_path, row | {"memory_rate": 1e12})))
    assert target.arch == "sm_89" and target.roofline_seconds({"int8": 10**12}, 1) > 0
    assert target.clock_hz == target.l2_bytes == target.float16_rate == target.launch_seconds == 0
    assert target.roofline_seconds({"float32": 10**12}, 1) == 0.0
    assert target.roofline_seconds({"int4": 10**12}, 1) == 0.0


def test_clusters_fill_the_architectures_share_unless_a_file_says(tmp_path: Path) -> None:
    h100 = {"arch": "sm_90a", "product": "NVIDIA H100 PCIe", "units": 114, "int8_rate": 1513e12,
            "memory_rate": 2e12}  # fmt: skip
    assert read_hardware(written(tmp_path, h100))[1].units_in_clusters(4) == 103
    h100["clustered_units"] = 112
    assert read_hardware(written(tmp_path, h100))[1].units_in_clusters(4) == 112


BAD = {
    "no JSON": ("{", "no JSON"),
    "no text": ("\x00", "no JSON"),
    "nested too deep": ("[" * 100_000, "nested too deep"),
    "a list": ([RTX_4090], "found list"),
    "an empty list": ([], "found list"),
    "nothing": ({}, "no 'arch'"),
    "a figure twice": ('{"arch": "sm_89", "arch": "sm_80"}', "'arch' is there twice"),
    "an unknown figure": (RTX_4090 | {"clock": 1}, "unknown figure 'clock'; known are"),
    "a limit": (RTX_4090 | {"smem_bytes": 1 << 20}, "'smem_bytes' is the architecture's"),
    "a source": (RTX_4090 | {"source": "x"}, "unknown figure 'source'"),
    "an unknown arch": (RTX_4090 | {"arch": "sm_12"}, "arch is 'sm_12'; known are sm_75"),
    "an arch in numbers": (RTX_4090 | {"arch": 89}, "arch is 89"),
    "no product": (RTX_4090 | {"product": " "}, "product is ' '"),
    "a product of two lines": (RTX_4090 | {"product": "a\nb"}, "product is"),
    "no whole number": (RTX_4090 | {"units": 128.0}, "units is 128.0; expected a whole number"),
    "no units": (RTX_4090 | {"units": 0}, "units is 0"),
    "text for a number": (RTX_4090 | {"clock_hz": "2.52 GHz"}, 'clock_hz is "2.52 GHz"'),
    "true for a number": (RTX_4090 | {"units": True}, "units is true"),
    "null for a number": (RTX_4090 | {"l2_bytes": None}, "l2_bytes is null"),
    "a clock in megahertz": (RTX_4090 | {"clock_hz": 2520}, "expected a number from 1e+08"),
    "a rate in tera": (RTX_4090 | {"int8_rate": 660}, "operations a second"),
    "below zero": (RTX_4090 | {"memory_rate": -1e12}, "memory_rate is -1000000000000.0"),
    "not a number": (RTX_4090 | {"int8_rate": float("nan")}, "int8_rate is NaN"),
    "infinity": (RTX_4090 | {"int8_rate": float("inf")}, "int8_rate is Infinity"),
    "a number of 400 digits": (RTX_4090 | {"int8_rate": 10**400}, "out of range"),
    "an object for a number": (RTX_4090 | {"units": {"a": 1}}, "units is"),
    "what the architecture lacks": (RTX_4090 | {"clustered_units": 8}, "sm_89 has nothing"),
    "no such tensor cores": (RTX_4090 | {"arch": "sm_80", "e4m3_rate": 1e14}, "sm_80 has nothing"),
    "more clusters than units": (
        {"arch": "sm_90a", "product": "H", "units": 100, "clustered_units": 101,
         "int8_rate": 1e15, "memory_rate": 1e12},
        "clustered_units is 101, of 100 units",
    ),
} | {
    f"no {name}": ({key: value for key, value in RTX_4090.items() if key != name}, f"no '{name}'")
    for name in ("product", "units", "int8_rate", "memory_rate")
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_each_mistake_is_one_line(tmp_path: Path, case: str) -> None:
    value, words = BAD[case]
    path = written(tmp_path, value)
    with pytest.raises(InputError) as refused:
        read_hardware(path)
    line = str(refused.value)
    assert line.startswith(f"{path}: ") and words in line and len(line.splitlines()) == 1, line
    assert len(line) < len(str(path)) + 250


def test_bytes_that_are_no_text_and_files_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "gpu.json").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="no JSON"):
        read_hardware(tmp_path / "gpu.json")
    with pytest.raises(InputError, match=r"absent\.json: No such file"):
        read_hardware(tmp_path / "absent.json")
    with pytest.raises(InputError, match="Is a directory"):
        read_hardware(tmp_path)


@pytest.mark.parametrize(
    ("target", "words"),
    [("cpu", "describes a GPU, but the target is 'cpu'"),
     ("cuda:sm_80", "is of sm_89, but the target is cuda:sm_80"),
     ("auto", "the target is 'cpu'; choose cuda:sm_89")],
)  # fmt: skip
def test_a_file_of_another_target_is_refused(
    tmp_path: Path, no_gpu: None, target: str, words: str
) -> None:
    path = written(tmp_path, RTX_4090)
    with pytest.raises(TargetError) as refused:
        devices.resolve(target, hardware=path)
    assert str(refused.value).startswith(f"{path}: ") and words in str(refused.value)


def test_without_a_gpu_the_file_is_all_that_is_known(tmp_path: Path, no_gpu: None) -> None:
    host = devices.resolve("cuda", hardware=written(tmp_path, RTX_4090))
    assert host.device is None and host.target.arch == "sm_89" and host.target.units == 128


class Gpu(SimpleNamespace):
    """What `resolve` asks a device for."""

    ordinal, arch, name = 0, "sm_89", "NVIDIA GeForce RTX 4090"
    multiprocessors, smem_bytes, l2_bytes = 128, 99 << 10, 72 << 20


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "device_count", lambda: 1)
    monkeypatch.setattr(devices, "Device", lambda ordinal: Gpu())
    monkeypatch.setattr(devices, "driver_version", lambda: "13.0")


def test_the_driver_knows_better_than_autoqs_own_row(gpu: None) -> None:
    target = devices.resolve("cuda").target
    assert (target.units, target.l2_bytes) == (128, 72 << 20)
    assert target.int8_rate == HARDWARE["sm_89"].int8_rate
    assert devices.resolve("cuda:sm_80").target == parse_target("cuda:sm_80")


def test_a_file_goes_before_what_the_driver_leaves_open_and_not_against_it(
    gpu: None, tmp_path: Path
) -> None:
    host = devices.resolve("auto", hardware=written(tmp_path, RTX_4090))
    assert host.device == Gpu.name and host.target.memory_rate == 1.008e12
    with pytest.raises(TargetError, match=r"units is 142, but GPU 0 .*128 multiprocessors$"):
        devices.resolve("cuda", hardware=written(tmp_path, RTX_4090 | {"units": 142}))
