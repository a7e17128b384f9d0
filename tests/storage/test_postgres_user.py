"""The system user that a root broker's Postgres runs as: how it is made, and what it is given."""

import os
import tempfile
from pathlib import Path
from typing import Final

import pytest

from storage.postgres.postgres_binaries import (
    EmbeddedPostgresError,
    SystemUser,
    _make_system_user,
    make_socket_directory,
    socket_directory,
)

TOO_LONG: Final = Path("/srv") / ("x" * 120) / "postgres"
SOMEBODY: Final = SystemUser(uid=54_321, gid=54_321)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")


def answer(code: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a `useradd` before the system's that ends with this code."""
    program = folder / "useradd"
    program.write_text(f"#!/bin/sh\nexit {code}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.parametrize("code", [0, 9])
def test_a_user_that_is_there_by_now_will_do(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a useradd that made the user, or found that another broker did it a moment before
    answer(code, tmp_path, monkeypatch)

    # When it is asked for, then all is well
    _make_system_user()


def test_a_user_that_cannot_be_made_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(1, tmp_path, monkeypatch)
    with pytest.raises(EmbeddedPostgresError, match="--postgres"):
        _make_system_user()


@needs_root
def test_a_link_of_a_stranger_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a link where the socket of a server with a long path would be
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o700)
    socket_directory(TOO_LONG).symlink_to(victim)

    # When the server's user is to have it, then it is refused, and nothing was given away
    with pytest.raises(EmbeddedPostgresError, match="somebody else"):
        make_socket_directory(TOO_LONG, SOMEBODY)
    assert victim.stat().st_uid == 0


@pytest.mark.parametrize("kind", ["file", "link to nothing", "open to others"])
def test_what_is_no_folder_of_ours_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    place = socket_directory(TOO_LONG)
    match kind:
        case "file":
            place.touch()
        case "link to nothing":
            place.symlink_to(tmp_path / "nothing")
        case _:
            place.mkdir()
            place.chmod(0o755)
    with pytest.raises(EmbeddedPostgresError, match="somebody else"):
        make_socket_directory(TOO_LONG, None)


@needs_root
def test_the_folder_of_the_socket_is_given_to_the_servers_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for _ in range(2):
        folder = make_socket_directory(TOO_LONG, SOMEBODY)
        status = folder.lstat()
        assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (54_321, 54_321, 0o700)
