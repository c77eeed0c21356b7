"""Artifacts and inputs that are no good."""

import io
import os
import resource
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sound_artifact import rewrite_manifest

from autoq.cli.npz import read_arrays
from autoq.errors import InputError

GOOD = np.zeros((1, 16, 8, 8), np.float32)

BAD_ARRAYS = {
    "wrong name": ({"z": GOOD}, ("no array 'x'", "['z']")),
    "extra array": ({"x": GOOD, "z": GOOD}, ("'z' is no input",)),
    "wrong shape": ({"x": GOOD[:, :8]}, ("'x'", "[1, 16, 8, 8]", "[1, 8, 8, 8]")),
    "wrong rank": ({"x": GOOD[0]}, ("'x'", "[1, 16, 8, 8]", "[16, 8, 8]")),
    "wrong dtype": ({"x": GOOD.astype(np.float64)}, ("'x'", "float32", "float64")),
    "objects": ({"x": np.array([{}], dtype=object)}, ("in.npz",)),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_inputs_that_do_not_fit(refuses, folder, artifact, case):
    arrays, words = BAD_ARRAYS[case]
    np.savez("in.npz", **arrays)
    refuses("run", artifact, "--inputs", "in.npz", "--outputs", "out.npz", words=words)


def _damaged() -> bytes:
    file = io.BytesIO()
    np.savez(file, x=GOOD)
    data = bytearray(file.getvalue())
    data[100:180] = b"#" * 80
    return bytes(data)


FILES = {
    "text": (b"hello\n", "not an .npz archive"),
    "empty": (b"", "not an .npz archive"),
    "cut": (_damaged()[:500], "not an .npz archive"),
    "damaged": (_damaged(), "x.npy is damaged"),
}


@pytest.mark.parametrize("case", FILES)
def test_inputs_that_are_no_archive(refuses, folder, artifact, case):
    content, word = FILES[case]
    (folder / "in.npz").write_bytes(content)
    refuses("run", artifact, "--inputs", "in.npz", words=("in.npz", word))


def _zip(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return file.getvalue()


def _bomb(head: bytes) -> bytes:
    """An archive of 256 MiB of zeros behind a member's first bytes, which takes little memory."""
    file = io.BytesIO()
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w") as member,
    ):
        member.write(head)
        for _ in range(256):
            member.write(bytes(1 << 20))
    return file.getvalue()


def _npy(shape: tuple, descr: str = "<f4", data: bytes = b"", version: int = 1) -> bytes:
    """A file of numpy whose header may lie."""
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    return _npy_of(repr(header), data, version)


def _npy_of(header: str, data: bytes = b"", version: int = 1) -> bytes:
    """A file of numpy with a header of any text."""
    text = header.encode() + b"\n"
    length = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


def _flagged(data: bytes, offset: int, value: int) -> bytes:
    """An archive with a 16-bit field of its one member changed, in both of its headers."""
    changed = bytearray(data)
    at = data.rindex(b"PK\x01\x02") + offset
    changed[at : at + 2] = value.to_bytes(2, "little")
    changed[offset - 2 : offset] = value.to_bytes(2, "little")
    return bytes(changed)


BODY = GOOD.tobytes()
SOUND = _npy(GOOD.shape, data=BODY)
HOSTILE = {
    "encrypted": (_flagged(_zip(x=SOUND), 8, 1), "x.npy is encrypted"),
    "packed by LZMA": (_flagged(_zip(x=SOUND), 10, 14), "packed by method 14"),
    "packed by nobody": (_flagged(_zip(x=SOUND), 10, 77), "packed by method 77"),
    "a bomb": (partial(_bomb, SOUND), "x.npy is damaged"),
    "a bomb for a header": (partial(_bomb, b"\x93NUMPY\x02\x00" + b"\xff" * 4), "damaged"),
    "a header of terabytes": (_zip(x=_npy((1 << 40,))), "[1099511627776]"),
    "a header below zero": (_zip(x=_npy((-1, 16, 8, 8))), "[-1, 16, 8, 8]"),
    "a header of objects": (_zip(x=_npy(GOOD.shape, "|O", BODY)), "found object"),
    "the other byte order": (_zip(x=_npy(GOOD.shape, ">f4", BODY)), "found >f4"),
    "numbers missing": (_zip(x=SOUND[:-1]), "x.npy is damaged"),
    "no numbers": (_zip(x=b""), "x.npy is damaged"),
    "a shape of text": (
        _zip(x=_npy_of("{'descr': '<f4', 'fortran_order': False, 'shape': '1'}")),
        "x.npy is damaged",
    ),
    "a nested header": (_zip(x=_npy_of("(" * 3000)), "x.npy is damaged"),
    "a later version": (_zip(x=_npy(GOOD.shape, data=BODY, version=9)), "x.npy is damaged"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_archives_made_to_harm(refuses, folder, artifact, case):
    content, word = HOSTILE[case]
    (folder / "in.npz").write_bytes(content() if callable(content) else content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refuses("run", artifact, "--inputs", "in.npz", "--outputs", "o.npz", words=("in.npz", word))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 100 << 10, f"{grown} KiB"


@pytest.mark.parametrize("version", [1, 2])
def test_arrays_in_every_form_that_numpy_writes(autoq, folder, artifact, version):
    x = np.random.default_rng(0).standard_normal(GOOD.shape, np.float32)
    np.savez("x.npz", x=x)
    (folder / "version.npz").write_bytes(_zip(x=_npy(x.shape, data=x.tobytes(), version=version)))
    np.savez_compressed("packed.npz", x=np.asfortranarray(x))
    results = []
    for name in ("x.npz", "version.npz", "packed.npz"):
        assert autoq("run", artifact, "--inputs", name, "--outputs", "out.npz").code == 0
        results.append(np.load("out.npz")["y"])
    assert (results[0] == results[1]).all() and (results[0] == results[2]).all()


def test_two_arrays_of_one_name(refuses, folder, artifact):
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile("in.npz", "w") as archive:
        archive.writestr("x.npy", SOUND)
        archive.writestr("x.npy", SOUND)
    refuses("run", artifact, "--inputs", "in.npz", words=("in.npz", "2 arrays are called 'x'"))


def test_a_pipe_is_no_archive(folder):
    os.mkfifo("pipe")
    with pytest.raises(InputError, match="pipe: is no ordinary file"):
        read_arrays(Path("pipe"), [])


def test_outputs_that_are_read(refuses, folder, artifact):
    np.savez("in.npz", x=GOOD)
    (folder / "m.tar").write_bytes(artifact.read_bytes())
    refuses("run", "m.tar", "--outputs", "m.tar", words=("m.tar", "which is read"))
    refuses("run", "m.tar", "--inputs", "in.npz", "--outputs", "./in.npz", words=("in.npz",))


def test_a_full_disk(refuses, artifact):
    np.savez("out.npz", y=GOOD)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        refuses("run", artifact, "--outputs", "out.npz", words=("out.npz", "cannot be written"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_single_array_and_an_absent_file(refuses, artifact):
    np.save("in.npy", GOOD)
    refuses("run", artifact, "--inputs", "in.npy", words=("not an .npz archive", "savez"))
    refuses("run", artifact, "--inputs", "absent.npz", words=("absent.npz", "No such file"))


def test_options_of_run(refuses, artifact):
    refuses("run", artifact, "--fill-mode", "pink", words=("'pink'", "random, ones, zeros"))
    np.savez("in.npz", x=GOOD)
    both = ("--inputs", "in.npz", "--fill-mode", "ones")
    refuses("run", artifact, *both, words=("--fill-mode", "--inputs", "one of the two"))
    refuses("run", artifact, "--outputs", "absent/out.npz", words=("absent",))
    refuses("run", artifact, "--outputs", ".", words=("folder",))
    refuses("run", artifact, "--repeat", 0, words=("--repeat",))
    refuses("run", artifact, "--device", 3, words=("device 3", "the target is the CPU"))


@pytest.mark.parametrize("content", [b"", b"hello\n", b"\0" * 2048])
def test_a_file_that_is_no_artifact(refuses, folder, content):
    (folder / "m.tar").write_bytes(content)
    refuses("run", "m.tar", words=("m.tar", "autoq"))


def test_an_absent_artifact_and_a_model(refuses, model):
    refuses("run", "absent.tar", words=("absent.tar", "no such file"))
    refuses("run", ".", words=("directory",))
    refuses("run", model, words=(str(model), "autoq compile"))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_artifact(refuses, folder, artifact, share):
    whole = artifact.read_bytes()
    (folder / "m.tar").write_bytes(whole[: int(len(whole) * share)])
    refuses("run", "m.tar", words=("m.tar",))


def test_an_artifact_of_another_format(refuses, folder, artifact):
    rewrite_manifest(artifact, Path("m.tar"), lambda manifest: manifest.update(format=99))
    refuses("run", "m.tar", words=("m.tar", "format 99", "compile the model again"))


def test_an_artifact_for_a_cpu_with_more_features(refuses, folder, artifact):
    def change(manifest):
        manifest["plan"]["cpu_features"] = ["avx2", "amx9000"]

    rewrite_manifest(artifact, Path("m.tar"), change)
    refuses("run", "m.tar", words=("m.tar", "amx9000"))


def test_an_artifact_without_its_plan(refuses, folder, artifact):
    rewrite_manifest(artifact, Path("m.tar"), lambda manifest: manifest.pop("plan"))
    refuses("run", "m.tar", words=("m.tar",))
