"""The validator of plans alone: digests are right in every case, only what they cover is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sound_artifact import artifact, rewrite_manifest

from autoq.errors import ArtifactError
from autoq.runtime.artifact import read_artifact, write_artifact

Change = Callable[[Any], None]


def put(*where: str | int) -> Callable[[Any], Change]:
    """A change of the value at a path of keys."""
    *folders, last = where

    def with_value(value: Any) -> Change:
        def change(manifest: Any) -> None:
            for key in folders:
                manifest = manifest[key]
            manifest[last] = value

        return change

    return with_value


def both(*changes: Change) -> Change:
    """Several changes, one after the other."""

    def change(manifest: Any) -> None:
        for each in changes:
            each(manifest)

    return change


FIRST = ("plan", "calls", 0)
X = (*FIRST, "arguments", 0)
SUMS = (*FIRST, "workspaces", 0)
SCALE = (*FIRST, "arguments", 1)
INPUT = ("plan", "inputs", 0)
OUTPUT = ("plan", "outputs", 0)
KERNEL = ("kernels", 0)
LAUNCH = (*KERNEL, "launches", 0)
TILED = (*LAUNCH, "arguments", 3)
IM2COL = (*LAUNCH, "arguments", 4)
CONSTANT = {"space": "constant", "offset": 0, "shape": [1, 512], "dtype": "int8"}

PLANS = {
    "another target": (put("plan", "target_kind")("cpu"), "another target"),
    "an unknown target": (put("plan", "target_kind")("tpu"), "'tpu'"),
    "an odd arena": (put("plan", "arena_bytes")(2049), "multiples of 256"),
    "a small arena": (put("plan", "arena_bytes")(1280), "512 bytes at 1536 of 1280"),
    "a huge arena": (put("plan", "arena_bytes")(1 << 60), "few are used"),
    "an arena below zero": (put("plan", "arena_bytes")(-256), "arena of -256 bytes"),
    "few constants": (put("plan", "constant_bytes")(256), "256 bytes at 256 of 256"),
    "an unaligned offset": (put(*X, "offset")(4), "multiples of 256"),
    "an offset below zero": (put(*X, "offset")(-256), "at -256"),
    "an offset behind the end": (put(*SCALE, "offset")(1 << 62), "of 512 bytes"),
    "another space": (put(*X, "space")("stack"), "'stack'"),
    "another dtype": (put(*X, "dtype")("uint8"), "uint8 [1, 512] to a kernel that takes int8"),
    "an unknown dtype": (put(*X, "dtype")("object"), "dtype 'object'"),
    "an extent of zero": (put(*X, "shape")([0, 512]), "shape [0, 512]"),
    "a larger shape": (put(*SCALE, "shape")([128]), "float32 [128]"),
    "a shape beyond any memory": (put(*X, "shape")([1 << 62] * 2), "shape [4611"),
    "an absent kernel": (put(*FIRST, "kernel")(2), "kernel 2 of 2"),
    "a kernel below zero": (put(*FIRST, "kernel")(-1), "kernel -1 of 2"),
    "a kernel that nobody runs": (put("plan", "calls", 1, "kernel")(0), "no call runs kernel 1"),
    "too few arrays": (put(*FIRST, "arguments")([]), "2 arrays to a kernel of 4"),
    "bytes that nobody wrote": (put(*X, "offset")(1024), "that no call wrote"),
    "an overwritten source": (put(*FIRST, "outputs", 0, "offset")(0), "overwrites an input"),
    "a call in place": (put("plan", "calls", 1, "outputs", 0, "offset")(512), "what it reads"),
    "a written constant": (put(*FIRST, "outputs", 0)(CONSTANT), "overwrites an input or"),
    "a workspace over an input": (put(*SUMS, "offset")(0), "overwrites an input"),
    "a workspace over the output": (put(*SUMS, "offset")(512), "overwrites what it reads"),
    "a workspace over what is read later": (
        put("plan", "calls", 2, "workspaces", 0, "offset")(1024), "overwrites what it reads"
    ),
    "a workspace that is a constant": (put(*SUMS)(CONSTANT), "overwrites an input or"),
    "a workspace of another size": (put(*SUMS, "shape")([1, 256]), "int8 [1, 256] to a kernel"),
    "a workspace missing": (put(*FIRST, "workspaces")([]), "3 arrays to a kernel of 4"),
    "no output of a call": (put(*FIRST, "outputs")([]), "3 arrays to a kernel of 4"),
    "zeros that two calls share": (
        put(*KERNEL, "workspaces", 0, "initially")("stays zero"), "shares zeros that stay"
    ),
    "calls missing": (put("plan", "calls")([]), "few are used"),
    "an output elsewhere": (put(*OUTPUT, "slot", "offset")(768), "'y'"),
    "an output that is a constant": (put(*OUTPUT, "slot")(CONSTANT), "is a constant"),
    "no output": (put("plan", "outputs")([]), "no output"),
    "an input of other numbers": (put(*INPUT, "values")("uint4"), "'uint4' as int8"),
    "negative operations": (put(*FIRST, "operations")(-1), "negative"),
}  # fmt: skip

KERNELS = {
    "a parameter of another dtype": (put(*KERNEL, "parameters", 0, "dtype")("int4"), "'int4'"),
    "fewer parameters": (put(*KERNEL, "parameters")([]), "buffer 1 of 1"),
    "a grid of zero": (put(*LAUNCH, "grid")([0, 5, 6]), "grid (0, 5, 6)"),
    "a grid beyond the limit": (put(*LAUNCH, "grid")([4, 1 << 16, 6]), "grid"),
    "a large block": (put(*LAUNCH, "block")([512, 4, 1]), "block (512, 4, 1)"),
    "a large cluster": (put(*LAUNCH, "cluster")([4, 5, 1]), "cluster (4, 5, 1)"),
    "a cluster that does not divide": (put(*LAUNCH, "cluster")([3, 1, 1]), "cluster (3, 1, 1)"),
    "much shared memory": (put(*LAUNCH, "smem_bytes")(1 << 20), "1048576 bytes of shared"),
    "a byte too much of it": (put(*LAUNCH, "smem_bytes")(232449), "232449 bytes of shared"),
    "as much as another GPU has": (
        both(put("plan", "arch")("sm_80"), put(*LAUNCH, "smem_bytes")(200 << 10)),
        "204800 bytes of shared",
    ),
    "more than any GPU has": (
        both(put("plan", "arch")("sm_1000"), put(*LAUNCH, "smem_bytes")(232449)),
        "232449 bytes of shared",
    ),
    "shared memory below zero": (put(*LAUNCH, "smem_bytes")(-1), "-1 bytes of shared"),
    "another symbol": (put(*LAUNCH, "symbol")("main\0"), "symbol"),
    "no module": (put(*KERNEL, "modules")([]), "module 0 of 0"),
    "no launch": (put(*KERNEL, "launches")([]), "no launch"),
    "an absent buffer": (put(*LAUNCH, "arguments", 0, "index")(4), "buffer 4 of 4"),
    "a buffer below zero": (put(*LAUNCH, "arguments", 0, "index")(-1), "buffer -1"),
    "a wide scalar": (put(*LAUNCH, "arguments", 2, "value")(1 << 31), "int32 scalar"),
    "a fraction": (put(*LAUNCH, "arguments", 2, "value")(0.5), "scalar 0.5"),
    "an unknown scalar": (put(*LAUNCH, "arguments", 2, "dtype")("half"), "'half'"),
    "a workspace of nothing": (put(*KERNEL, "workspaces", 0, "shape")([0]), "shape [0]"),
    "a workspace of other contents": (
        put(*KERNEL, "workspaces", 0, "initially")("one"), "initially 'one'"
    ),
    "an absent module": (put(*LAUNCH, "module")(2), "nothing runs module 0"),
    "a module below zero": (put(*KERNEL, "launches", 1, "module")(-1), "nothing runs module 1"),
    "a module that nobody runs": (put(*KERNEL, "launches", 1, "module")(0), "runs module 1"),
    "a map beyond its array": (put(*TILED, "dims")([16, 80]), "1280 bytes over 512"),
    "a map of fewer strides": (put(*TILED, "strides")([]), "ranks"),
    "a map of an odd stride": (put(*TILED, "strides")([8]), "strides"),
    "a map of a large box": (put(*TILED, "box")([16, 257]), "box"),
    "a map of no box": (put(*TILED, "box")([0, 8]), "box"),
    "a map of another swizzle": (put(*TILED, "swizzle")(9), "swizzle 9"),
    "a map of another dtype": (put(*IM2COL, "dtype")("float64"), "'float64'"),
    "windows beyond their array": (put(*IM2COL, "dims")([16, 8, 8, 1]), "1024 bytes over 512"),
    "windows of no channels": (put(*IM2COL, "channels")(0), "box"),
    "far corners": (put(*IM2COL, "lower")([-1, 1 << 20]), "corners"),
}  # fmt: skip

JSON = {
    "a field missing": (lambda manifest: manifest["plan"].pop("calls"), "no field 'calls'"),
    "a field too many": (put("plan", "more")(1), "unknown field 'more'"),
    "true for a number": (put(*X, "offset")(True), "expected int, found bool"),
    "a fraction for a number": (put(*X, "offset")(0.0), "expected int, found float"),
    "a number of 400 digits": (put(*X, "offset")(10**400), "out of range"),
    "infinity": (put(*FIRST, "roofline_seconds")(float("inf")), "out of range"),
    "not a number": (put(*FIRST, "roofline_seconds")(float("nan")), "out of range"),
    "text for a list": (put(*X, "shape")("12"), "expected a list"),
    "a list for an object": (put(*INPUT)([]), "expected an object"),
    "no text": (put(*OUTPUT, "name")("\ud800"), "no Unicode"),
    "an output with an input's name": (put(*OUTPUT, "name")("x"), "other arrays are called 'x'"),
    "nothing": (put(*FIRST)(None), "expected an object, found NoneType"),
    "two of three": (put(*LAUNCH, "grid")([1, 2]), "expected 3 values, found 2"),
    "an unknown argument": (put(*LAUNCH, "arguments", 0, "type")("int"), "Buffer"),
    "an argument of no type": (put(*LAUNCH, "arguments", 0)(7), "Buffer"),
    "an unknown kernel": (put(*KERNEL, "kind")("tpu"), "neither"),
}  # fmt: skip

CASES = {**PLANS, **KERNELS, **JSON}


@pytest.mark.parametrize("case", CASES)
def test_unsound_plans_are_refused(tmp_path: Path, case: str) -> None:
    change, word = CASES[case]
    path = tmp_path / "net.tar"
    write_artifact(artifact(), path)
    rewrite_manifest(path, path, lambda manifest: None)
    assert read_artifact(path).plan == artifact().plan
    rewrite_manifest(path, path, change)
    with pytest.raises(ArtifactError) as refused:
        read_artifact(path)
    line = str(refused.value)
    assert str(path) in line and word in line and len(line.splitlines()) == 1, line


def test_two_ports_of_one_name_or_one_place_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.tar"
    for name, word in (("y", "2 outputs are called 'y'"), ("z", "share memory")):
        write_artifact(artifact(), path)

        def change(manifest: Any, name: str = name) -> None:
            outputs = manifest["plan"]["outputs"]
            outputs.append({**outputs[0], "name": name})

        rewrite_manifest(path, path, change)
        with pytest.raises(ArtifactError, match=word):
            read_artifact(path)


def test_all_shared_memory_of_the_architecture_may_be_used(tmp_path: Path) -> None:
    path = tmp_path / "net.tar"
    write_artifact(artifact(), path)
    rewrite_manifest(path, path, put(*LAUNCH, "smem_bytes")(232448))
    assert read_artifact(path).kernels[0].launches[0].smem_bytes == 232448
