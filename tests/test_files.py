"""Files written whole or not at all."""

import os
import stat

import pytest

from starcast.errors import FileError
from starcast.files import replacing


def test_the_target_appears_whole(tmp_path):
    target = tmp_path / "x"
    with replacing(target) as temporary:
        temporary.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, RuntimeError])
def test_an_interruption_leaves_the_old_file(tmp_path, interruption):
    target = tmp_path / "x"
    target.write_text("old")
    with pytest.raises(interruption), replacing(target) as temporary:
        temporary.write_text("half")
        raise interruption
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_the_file_is_as_readable_as_others(tmp_path):
    (tmp_path / "plain").write_text("")
    with replacing(tmp_path / "x") as temporary:
        temporary.write_text("new")
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with (
        pytest.raises(FileError, match=r"cannot be written: No such file.*Choose a folder"),
        replacing(tmp_path / "a" / "b"),
    ):
        pass


def test_a_folder_as_target_is_told(tmp_path):
    with pytest.raises(FileError, match=r"is a folder\. Give the name of a file"), replacing(tmp_path):
        pass


def test_what_is_no_plain_file_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(FileError, match="is no plain file"), replacing(pipe) as temporary:
        temporary.write_text("new")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]
