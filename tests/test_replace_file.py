"""A file that takes the place of another as a whole, or not at all."""

import resource

import pytest

from autoq.errors import InputError
from autoq.replace_file import replace_file


def test_the_new_file_stands_under_the_name_only_at_the_end(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with replace_file(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(error), replace_file(path) as file:
        file.write(b"new")
        raise error
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with (
            pytest.raises(InputError, match="file: cannot be written: File too large"),
            replace_file(tmp_path / "file") as file,
        ):
            file.write(b"x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())


def test_permissions_of_the_old_file_and_a_link_to_it_stay(tmp_path):
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to("file")
    with replace_file(link) as file:
        file.write(b"new")
    assert link.is_symlink() and path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_new_file_has_the_permissions_that_open_gives(tmp_path):
    (tmp_path / "plain").touch()
    with replace_file(tmp_path / "file") as file:
        file.write(b"new")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_long_name_is_no_obstacle(tmp_path):
    path = tmp_path / ("é" * 120)
    with replace_file(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(InputError, match="does not exist"), replace_file(tmp_path / "no" / "file"):
        pass
