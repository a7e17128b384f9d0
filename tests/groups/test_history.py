"""The judge of histories finds what is planted, and nothing in a good one."""

import pytest

from tests.groups.history import Ownership, check, read_twice

COUNTS = {0: 10}


def owner(
    member: str, began_s: float, ended_s: float, ended: str, read: range, committed: int | None
) -> Ownership:
    return Ownership(
        member=member,
        partition=0,
        began_s=began_s,
        ended_s=ended_s,
        ended=ended,
        offsets=list(read),
        committed=committed,
    )


def test_a_handover_and_a_kill_are_no_violations() -> None:
    history = [
        owner("A", 0, 1, "revoked", range(4), 4),
        owner("B", 1, 2, "killed", range(4, 8), 6),
        owner("A", 5, 6, "leaving", range(6, 10), 10),
    ]

    assert check({0: history}, COUNTS) == []
    assert read_twice({0: history}) == 2


@pytest.mark.parametrize(
    ("history", "found"),
    [
        (
            [owner("A", 0, 1, "revoked", range(4), 4), owner("B", 1, 2, "runs", range(4, 9), 9)],
            "1 never read, from 9 on",
        ),
        (
            [owner("A", 0, 2, "revoked", range(4), 4), owner("B", 1, 3, "runs", range(4, 10), 9)],
            "two owners at a time",
        ),
        (
            [owner("A", 0, 1, "killed", range(4), 4), owner("B", 1, 2, "runs", range(3, 10), 9)],
            "begins outside 4..4",
        ),
        (
            [owner("A", 0, 1, "killed", range(4), 2), owner("B", 1, 2, "runs", range(5, 10), 9)],
            "begins outside 2..4",
        ),
        (
            [owner("A", 0, 1, "revoked", range(4), 2), owner("B", 1, 2, "runs", range(2, 10), 9)],
            "went without having committed",
        ),
    ],
)
def test_each_violation_is_found(history: list[Ownership], found: str) -> None:
    assert any(found in one for one in check({0: history}, COUNTS))


def test_a_gap_inside_one_ownership_is_found() -> None:
    history = owner("A", 0, 1, "runs", range(10), 10)
    history.offsets.remove(5)

    assert any("not in order" in one for one in check({0: [history]}, COUNTS))
