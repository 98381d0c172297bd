"""Key files: whole or not at all, never overwritten, open to nobody else."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from pilotage.adapters.sealing.key_file import (
    KeyFileError,
    SealingKey,
    create_key_file,
    read_key_file,
    read_or_create_key_file,
)

posix_only = pytest.mark.skipif(os.name != "posix", reason="modes are a matter of POSIX")


def test_a_new_key_is_read_back(tmp_path: Path) -> None:
    key = create_key_file(tmp_path / "a.key")
    assert len(key.secret) == 32
    assert read_key_file(tmp_path / "a.key") == key


def test_every_new_key_is_another(tmp_path: Path) -> None:
    keys = [create_key_file(tmp_path / f"{number}.key") for number in range(10)]
    assert len({key.id for key in keys}) == 10


@posix_only
def test_a_new_file_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        create_key_file(tmp_path / "a.key")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.key").stat().st_mode) == 0o600


def test_nothing_but_the_key_file_is_left_behind(tmp_path: Path) -> None:
    create_key_file(tmp_path / "a.key")
    with pytest.raises(KeyFileError):
        create_key_file(tmp_path / "a.key")
    assert [path.name for path in tmp_path.iterdir()] == ["a.key"]


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    key = create_key_file(tmp_path / "a.key")
    with pytest.raises(KeyFileError, match="never overwritten") as refused:
        create_key_file(tmp_path / "a.key")
    assert refused.value.path == tmp_path / "a.key"
    assert read_key_file(tmp_path / "a.key") == key


def test_of_several_processes_that_start_at_once_all_get_the_same_key(tmp_path: Path) -> None:
    ready = Barrier(8)

    def start(_: int) -> SealingKey:
        ready.wait()
        return read_or_create_key_file(tmp_path / "a.key")

    with ThreadPoolExecutor(8) as pool:
        assert len({key.id for key in pool.map(start, range(8))}) == 1


@posix_only
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o777], ids=oct)
def test_a_file_that_is_open_to_others_is_refused_with_the_way_out(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a.key"
    create_key_file(path)
    path.chmod(mode)
    with pytest.raises(KeyFileError, match=f"mode {mode:04o}") as refused:
        read_key_file(path)
    assert f"chmod 600 {path}" in str(refused.value)


@posix_only
@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700], ids=oct)
def test_a_file_that_only_its_owner_may_read_is_fine(tmp_path: Path, mode: int) -> None:
    key = create_key_file(tmp_path / "a.key")
    (tmp_path / "a.key").chmod(mode)
    assert read_key_file(tmp_path / "a.key") == key


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match=r"does not exist.*create_key_file"):
        read_key_file(tmp_path / "a.key")


@pytest.mark.parametrize("make", [create_key_file, read_or_create_key_file])
def test_a_file_that_cannot_be_written_says_why(tmp_path: Path, make: object) -> None:
    assert callable(make)
    with pytest.raises(KeyFileError, match="cannot be written: No such file or directory"):
        make(tmp_path / "nowhere" / "a.key")


def test_a_directory_is_no_key_file(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(KeyFileError, match="cannot be read"):
        read_key_file(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hunter2",
        "pilotage-key-1 aHVudGVyMg==",
        "pilotage-key-1 not base64: hunter2",
        "pilotage-key-2 " + "A" * 43 + "=",
        "A" * 43 + "=",
        "pilotage-key-1 ☃",
    ],
)
def test_a_damaged_file_is_refused_without_a_word_of_what_it_holds(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.key"
    path.touch(0o600)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(KeyFileError, match="holds no key") as refused:
        read_key_file(path)
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is refused.value.__context__ is None


def test_a_key_is_not_shown() -> None:
    key = SealingKey(b"hunter2" * 4 + b"1234")
    assert "hunter2" not in repr(key)
    assert key.id not in key.secret.hex()
