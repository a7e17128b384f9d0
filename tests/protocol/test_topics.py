"""Topic names: what Kafka allows, and which two names are too much alike."""

import pytest

from protocol.topics import collision_key, name_problem


@pytest.mark.parametrize("name", ["a", "user-events", "A.b_C-9", "...", "_", "-", "x" * 249])
def test_names_that_are_allowed(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a b", "a/b", "a\n", "\na", "ünï", "a\0", "x" * 250, "\uff41", "a%2e"]
)
def test_names_that_are_not(name: str) -> None:
    assert name_problem(name)


def test_a_dot_and_an_underscore_are_too_much_alike() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c")
    assert collision_key("a.b") != collision_key("a-b")
