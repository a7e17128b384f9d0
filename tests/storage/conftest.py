"""Fixtures of tests on a real Postgres; tests take them by name and import nothing for it."""

import pytest

from tests.support.patience import lift_limits


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions with Postgres have all the time that a slow machine may need."""
    lift_limits(monkeypatch)
