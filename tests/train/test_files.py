"""Writing files and locking folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from longrun.base.errors import FolderError
from longrun.base.files import FolderLock, make_folder, read_json, write_json


def test_a_locked_folder_is_refused_and_free_again_afterwards(tmp_path: Path) -> None:
    message = "is being written by another process"
    with FolderLock(tmp_path), pytest.raises(FolderError, match=message):
        FolderLock(tmp_path)
    with FolderLock(tmp_path):
        pass


def test_an_error_raised_inside_the_block_propagates_unchanged(tmp_path: Path) -> None:
    """A BlockingIOError of the training is not an error of the lock."""
    error = BlockingIOError("a pipe of the simulator is full")
    with pytest.raises(BlockingIOError) as caught, FolderLock(tmp_path):
        raise error
    assert caught.value is error
    with FolderLock(tmp_path):
        pass


def test_a_missing_and_a_damaged_file_are_folder_errors(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="does not exist"):
        read_json(tmp_path / "a.json")
    (tmp_path / "b.json").write_text("{")
    with pytest.raises(FolderError, match="damaged or not readable"):
        read_json(tmp_path / "b.json")


def test_values_that_json_cannot_represent_leave_the_old_file_intact(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"x": 1})
    with pytest.raises(ValueError, match="Out of range"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert read_json(tmp_path / "a.json") == {"x": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_folder_that_cannot_be_created_is_named_with_a_fix() -> None:
    why = "folder '/proc/foo' cannot be created: No such file or directory; choose another folder"
    with pytest.raises(FolderError, match=f"^{why}$"):
        make_folder(Path("/proc/foo"))
