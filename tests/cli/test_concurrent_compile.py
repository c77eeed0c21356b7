"""Several compilations in one process at once, into files of their own and into one file."""

import threading

import autoq
from autoq.runtime.artifact import read_artifact


def test_threads_compile_side_by_side(tmp_path, model):
    names = ["alone", "a", "b", "same", "same"]
    errors = []

    def work(name):
        try:
            autoq.compile(model, target="cpu", output=tmp_path / f"{name}.tar",
                          cache_dir=tmp_path / "cache", jobs=2)  # fmt: skip
        except BaseException as error:
            errors.append(error)

    work(names[0])
    threads = [threading.Thread(target=work, args=(name,)) for name in names[1:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    expected = read_artifact(tmp_path / "alone.tar")
    for name in names[1:]:
        found = read_artifact(tmp_path / f"{name}.tar")
        assert found.kernels == expected.kernels
        assert (found.constants == expected.constants).all() and found.plan == expected.plan
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"alone.tar", "a.tar", "b.tar", "same.tar", "cache"}
