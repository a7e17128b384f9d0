"""The system user that a root broker's Postgres runs as, where it has to be made."""

import os
from pathlib import Path

import pytest

from storage.postgres_binaries import EmbeddedPostgresError, _make_system_user


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
