"""Faults of values, each planted in a short history, and the same history without it."""

from collections.abc import Mapping
from typing import Final

from tests.history.planted import (
    OTHER,
    PRODUCER,
    READER,
    Plant,
    Story,
    copied,
    polled,
    read_all,
    sent,
)


def lost_in_the_middle(story: Story, broken: bool) -> None:
    story.send(PRODUCER, sent(0, 10, 0), sent(0, 11, 1), sent(0, 12, 2))
    read_all(story, {0: [(0, 10), (2, 12)] if broken else [(0, 10), (1, 11), (2, 12)]})


def lost_though_unsure(story: Story, broken: bool) -> None:
    """A transaction with an unknown end is committed, says one of its values."""
    story.transaction(PRODUCER, sent(0, 10, 0), sent(1, 20, 0), outcome="info")
    story.send(OTHER, sent(1, 21, 2))
    read_all(story, {0: [(0, 10)], 1: [(2, 21)] if broken else [(0, 20), (2, 21)]})


def unseen_at_the_end(story: Story, broken: bool) -> None:
    story.send(PRODUCER, sent(0, 10, 0), sent(0, 11, 1))
    read_all(story, {0: [(0, 10)] if broken else [(0, 10), (1, 11)]})


def unseen_again(story: Story, broken: bool) -> None:
    """A record that was read is gone when all is read at the end."""
    story.send(PRODUCER, sent(0, 10, 0), sent(0, 11, 1))
    story.assign(READER, {0: 0})
    story.poll(READER, {0: [(0, 10), (1, 11)]})
    read_all(story, {0: [(0, 10)] if broken else [(0, 10), (1, 11)]})


def unseen_without_offset(story: Story, broken: bool) -> None:
    story.send(PRODUCER, sent(0, 10))
    story.send(PRODUCER, sent(0, 11, 1))
    read_all(story, {0: [(1, 11)] if broken else [(0, 10), (1, 11)]})


def unseen_of_several(story: Story, broken: bool) -> None:
    """One of two sends timed out, the other one is acknowledged."""
    story.send(PRODUCER, sent(0, 10, 0), sent(1, 20), outcome="info", codes=[7])
    read_all(story, {0: [] if broken else [(0, 10)]})


def other_value_at_the_offset(story: Story, broken: bool) -> None:
    story.send(PRODUCER, sent(0, 10, 0))
    story.send(OTHER, sent(0, 11, None if broken else 1))
    story.assign(READER, {0: 0})
    story.poll(READER, {0: [(0, 11)] if broken else [(0, 10)]})
    read_all(story, {0: [(0, 10), (0 if broken else 1, 11)]})


def appended_twice(story: Story, broken: bool) -> None:
    story.send(PRODUCER, sent(0, 10, 0))
    read_all(story, {0: [(0, 10), (1, 10)] if broken else [(0, 10)]})


def retry_told_another_offset(story: Story, broken: bool) -> None:
    """A retry must get the offset at which the record is."""
    story.send(PRODUCER, sent(0, 10, 0))
    story.send(PRODUCER, sent(0, 11, 5 if broken else 1))
    read_all(story, {0: [(0, 10), (1, 11)]})


def nobody_sent(story: Story, broken: bool) -> None:
    story.send(PRODUCER, sent(0, 10, 0))
    read_all(story, {0: [(0, 10), (1, 99)] if broken else [(0, 10)]})


def sent_elsewhere(story: Story, broken: bool) -> None:
    """A record that turns up in another partition is none that was sent there."""
    story.send(PRODUCER, sent(0, 10, 0), sent(1, 20), outcome="info", codes=[7])
    read_all(story, {0: [(0, 10)], 1: [(0, 10 if broken else 20)]})


def aborted_is_read(story: Story, broken: bool) -> None:
    story.transaction(PRODUCER, sent(0, 10, 0), sent(0, 11, 1), outcome="fail")
    story.send(PRODUCER, sent(0, 12, 3))
    aborted = [(0, 10), (1, 11)] if broken else []
    read_all(story, {0: [*aborted, (3, 12)]})


def refused_is_read(story: Story, broken: bool) -> None:
    """NOT_LEADER_OR_FOLLOWER has to be true; after a timeout nobody knows."""
    codes = [6, 6] if broken else [7, 6]
    story.send(PRODUCER, sent(0, 10), outcome="fail", codes=codes)
    read_all(story, {0: [(0, 10)]})


def own_is_read(story: Story, broken: bool) -> None:
    story.assign(PRODUCER, {0: 0})
    story.transaction(PRODUCER, sent(0, 10, 0), polled({0: [(0, 10)]} if broken else {}))
    read_all(story, {0: [(0, 10)]})


def read_from_each_other(story: Story, broken: bool) -> None:
    story.transaction(PRODUCER, sent(0, 10, 0), polled({1: [(0, 20)]}), at=(1, 4), commit_at=1)
    other = polled({0: [(0, 10)]} if broken else {})
    story.transaction(OTHER, sent(1, 20, 0), other, at=(2, 3), commit_at=2)
    read_all(story, {0: [(0, 10)], 1: [(0, 20)]})


def read_in_a_ring(story: Story, broken: bool) -> None:
    for at in range(5):
        before = (at - 1) % 5
        reads = {before: [(0, 10 + before)]} if broken or at else {}
        story.transaction(at, sent(at, 10 + at, 0), polled(reads), at=(1, 2))
    read_all(story, {at: [(0, 10 + at)] for at in range(5)})


def half_committed(story: Story, broken: bool) -> None:
    story.transaction(PRODUCER, sent(0, 10, 0), sent(1, 20, 0), outcome="info", codes=[7])
    read_all(story, {0: [(0, 10)], 1: [] if broken else [(0, 20)]})


def read_too_early(story: Story, broken: bool) -> None:
    story.assign(READER, {0: 0})
    story.poll(READER, {0: [(0, 10)]}, at=(5, 6 if broken else 8))
    story.send(PRODUCER, sent(0, 10, 0), at=(7, 9))
    read_all(story, {0: [(0, 10)]})


def read_before_the_commit(story: Story, broken: bool) -> None:
    story.assign(READER, {0: 0})
    story.transaction(PRODUCER, sent(0, 10, 0), at=(5, 12), commit_at=8 if broken else 6)
    story.poll(READER, {0: [(0, 10)]}, at=(6, 7))
    read_all(story, {0: [(0, 10)]})


def copied_twice(story: Story, broken: bool) -> None:
    story.send(PRODUCER, sent(0, 10, 0))
    story.transaction(OTHER, copied(5, 10, 0, (0, 10)))
    story.transaction(
        READER, copied(5, 11, 2, (0, 10)), outcome="info" if broken else "fail", codes=[]
    )
    again = [(2, 11)] if broken else []
    read_all(story, {0: [(0, 10)], 5: [(0, 10), *again]})


def not_copied(story: Story, broken: bool) -> None:
    story.send(PRODUCER, sent(0, 10, 0), sent(0, 11, 1))
    story.transaction(OTHER, copied(5, 10, 0, (0, 10)))
    story.transaction(OTHER, copied(5, 11, 2, (0, 11)), outcome="fail" if broken else "ok")
    second = [] if broken else [(2, 11)]
    read_all(story, {0: [(0, 10), (1, 11)], 5: [(0, 10), *second]})


VALUE_PLANTS: Final[Mapping[Plant, set[str]]] = {
    lost_in_the_middle: {"lost-write", "unseen", "int-poll-skip"},
    lost_though_unsure: {"lost-write", "torn-txn", "poll-skip"},
    unseen_at_the_end: {"unseen"},
    unseen_again: {"unseen"},
    unseen_without_offset: {"unseen"},
    unseen_of_several: {"unseen"},
    other_value_at_the_offset: {"inconsistent-offsets", "int-nonmonotonic-poll"},
    appended_twice: {"duplicate"},
    retry_told_another_offset: {"duplicate"},
    nobody_sent: {"phantom-value"},
    sent_elsewhere: {"phantom-value"},
    aborted_is_read: {"G1a"},
    refused_is_read: {"G1a"},
    own_is_read: {"precommitted-read"},
    read_from_each_other: {"G1c"},
    read_in_a_ring: {"G1c"},
    half_committed: {"torn-txn"},
    read_too_early: {"read-before-write"},
    read_before_the_commit: {"read-before-write"},
    copied_twice: {"eos-duplicate"},
    not_copied: {"eos-missing"},
}
"""What each fault is called; one that is seen from several sides has several names."""
