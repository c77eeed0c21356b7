"""Artifacts and inputs that are no good."""

import io
from pathlib import Path

import numpy as np
import pytest
from sound_artifact import rewrite_manifest

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


def test_a_single_array_and_an_absent_file(refuses, artifact):
    np.save("in.npy", GOOD)
    refuses("run", artifact, "--inputs", "in.npy", words=("not an .npz archive", "savez"))
    refuses("run", artifact, "--inputs", "absent.npz", words=("absent.npz", "No such file"))


def test_options_of_run(refuses, artifact):
    refuses("run", artifact, "--fill-mode", "pink", words=("'pink'", "random, ones, zeros"))
    refuses("run", artifact, "--outputs", "absent/out.npz", words=("absent",))
    refuses("run", artifact, "--outputs", ".", words=("folder",))
    refuses("run", artifact, "--repeat", 0, words=("--repeat",))


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
