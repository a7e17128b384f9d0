"""Faults of orders, each planted in a short history, and the same history without it."""

from collections.abc import Mapping
from typing import Final

from tests.history.planted import OTHER, PRODUCER, READER, Plant, Story, polled, read_all, sent

HIGH: Final = "read_uncommitted"
STABLE: Final = "read_committed"


def jumps_in_an_operation(story: Story, broken: bool) -> None:
    story.send(PRODUCER, sent(0, 10, 0), sent(0, 11, 1), sent(0, 12, 2))
    story.assign(READER, {0: 0})
    jumped = {} if broken else {0: [(1, 11)]}
    story.poll(READER, {0: [(0, 10)]}, jumped, {0: [(2, 12)]})
    read_all(story, {0: [(0, 10), (1, 11), (2, 12)]})


def goes_back_in_an_operation(story: Story, broken: bool) -> None:
    story.send(PRODUCER, sent(0, 10, 0), sent(0, 11, 1))
    story.assign(READER, {0: 0})
    story.poll(READER, {0: [(0, 10), (1, 11)]}, {0: [(0, 10)] if broken else []})
    read_all(story, {0: [(0, 10), (1, 11)]})


def jumps_between_operations(story: Story, broken: bool) -> None:
    story.send(PRODUCER, sent(0, 10, 0), sent(0, 11, 1), sent(0, 12, 2))
    story.assign(READER, {0: 0})
    story.poll(READER, {0: [(0, 10)]})
    story.poll(READER, {0: [(2, 12)] if broken else [(1, 11), (2, 12)]})
    read_all(story, {0: [(0, 10), (1, 11), (2, 12)]})


def jumps_at_the_start(story: Story, broken: bool) -> None:
    story.send(PRODUCER, sent(0, 10, 0), sent(0, 11, 1))
    story.assign(READER, {0: 0 if broken else 1})
    story.poll(READER, {0: [(1, 11)]})
    read_all(story, {0: [(0, 10), (1, 11)]})


def does_not_go_back_after_an_abort(story: Story, broken: bool) -> None:
    """An operation that did not succeed is read again."""
    story.send(PRODUCER, sent(0, 10, 0), sent(0, 11, 1))
    story.assign(READER, {0: 0})
    story.transaction(READER, polled({0: [(0, 10)]}), outcome="fail")
    story.poll(READER, {0: [(1, 11)] if broken else [(0, 10), (1, 11)]})
    read_all(story, {0: [(0, 10), (1, 11)]})


def goes_back_between_operations(story: Story, broken: bool) -> None:
    story.send(PRODUCER, sent(0, 10, 0), sent(0, 11, 1))
    story.assign(READER, {0: 0})
    story.poll(READER, {0: [(0, 10), (1, 11)]})
    if not broken:
        story.assign(READER, {0: 1})
    story.poll(READER, {0: [(1, 11)]})
    read_all(story, {0: [(0, 10), (1, 11)]})


def sends_go_back(story: Story, broken: bool) -> None:
    first, second = (1, 0) if broken else (0, 1)
    story.send(PRODUCER, sent(0, 10, first))
    story.send(PRODUCER, sent(0, 11, second))
    read_all(story, {0: sorted([(first, 10), (second, 11)])})


def sends_go_back_in_an_operation(story: Story, broken: bool) -> None:
    first, second = (1, 0) if broken else (0, 1)
    story.send(PRODUCER, sent(0, 10, first), sent(0, 11, second))
    read_all(story, {0: sorted([(first, 10), (second, 11)])})


def acknowledged_behind_another(story: Story, broken: bool) -> None:
    story.send(PRODUCER, sent(0, 10, 1), at=(1, 4))
    story.send(OTHER, sent(0, 11, 0), at=(5 if broken else 3, 6))
    read_all(story, {0: [(0, 11), (1, 10)]})


def end_behind_an_ack(story: Story, broken: bool) -> None:
    story.send(PRODUCER, sent(0, 10, 0), sent(0, 11, 1))
    story.ends(OTHER, {0: 1 if broken else 2}, HIGH)
    read_all(story, {0: [(0, 10), (1, 11)]})


def end_goes_back(story: Story, broken: bool) -> None:
    story.ends(OTHER, {0: 7}, HIGH)
    story.ends(OTHER, {0: 6 if broken else 7}, HIGH)


def stable_offset_goes_back(story: Story, broken: bool) -> None:
    story.ends(OTHER, {0: 7}, STABLE, at=(1, 3))
    story.ends(READER, {0: 6}, STABLE, at=(4 if broken else 2, 5))


def end_behind_the_stable_offset(story: Story, broken: bool) -> None:
    story.ends(OTHER, {0: 7}, STABLE)
    story.ends(OTHER, {0: 6 if broken else 8}, HIGH)


def passes_an_open_transaction(story: Story, broken: bool) -> None:
    """A reader that begins behind the transaction's record skips nothing, but has to wait."""
    story.assign(READER, {0: 1})
    story.transaction(PRODUCER, sent(0, 10, 0), at=(3, 12), commit_at=10)
    story.send(OTHER, sent(0, 11, 1), at=(4, 5))
    story.poll(READER, {0: [(1, 11)]}, at=(6, 9 if broken else 11))
    read_all(story, {0: [(0, 10), (1, 11)]})


def stable_offset_passes_an_open_transaction(story: Story, broken: bool) -> None:
    story.transaction(PRODUCER, sent(0, 10, 0), at=(1, 9), commit_at=7)
    story.ends(OTHER, {0: 1 if broken else 0}, STABLE, at=(3, 6))
    read_all(story, {0: [(0, 10)]})


ORDER_PLANTS: Final[Mapping[Plant, set[str]]] = {
    jumps_in_an_operation: {"int-poll-skip"},
    goes_back_in_an_operation: {"int-nonmonotonic-poll"},
    jumps_between_operations: {"poll-skip"},
    jumps_at_the_start: {"poll-skip"},
    does_not_go_back_after_an_abort: {"poll-skip"},
    goes_back_between_operations: {"nonmonotonic-poll"},
    sends_go_back: {"nonmonotonic-send", "realtime-send-inversion"},
    sends_go_back_in_an_operation: {"int-nonmonotonic-send"},
    acknowledged_behind_another: {"realtime-send-inversion"},
    end_behind_an_ack: {"end-offset-behind-ack"},
    end_goes_back: {"end-offset-regressed"},
    stable_offset_goes_back: {"end-offset-regressed"},
    end_behind_the_stable_offset: {"end-offset-regressed"},
    passes_an_open_transaction: {"passed-transaction"},
    stable_offset_passes_an_open_transaction: {"passed-transaction"},
}
"""What each fault is called; one that is seen from several sides has several names."""
