"""The checker checked: it finds each planted fault, under its name, and nothing without it."""

import json
from pathlib import Path

import pytest

from tests.history import check
from tests.history.check import findings, hard, main, table
from tests.history.cycles import components
from tests.history.load import MalformedHistory, load, pair
from tests.history.operations import NEVER_NS, Outcome
from tests.history.order_plants import ORDER_PLANTS, end_goes_back
from tests.history.planted import Plant, Story, sent
from tests.history.value_plants import VALUE_PLANTS, unseen_at_the_end

PLANTS = {**VALUE_PLANTS, **ORDER_PLANTS}

TYPES = frozenset(
    {
        *("lost-write", "unseen", "inconsistent-offsets", "duplicate", "phantom-value", "G1a"),
        *("precommitted-read", "G1c", "torn-txn", "read-before-write", "int-poll-skip"),
        *("int-nonmonotonic-poll", "poll-skip", "nonmonotonic-poll", "nonmonotonic-send"),
        *("int-nonmonotonic-send", "realtime-send-inversion", "end-offset-behind-ack"),
        *("end-offset-regressed", "eos-duplicate", "eos-missing", "passed-transaction"),
    }
)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_found_and_nothing_else(plant: Plant, tmp_path: Path) -> None:
    story = Story()
    plant(story, True)
    assert set(findings(load(story.write(tmp_path)))) == PLANTS[plant]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_without_its_fault_the_history_is_good(plant: Plant, tmp_path: Path) -> None:
    story = Story()
    plant(story, False)
    assert findings(load(story.write(tmp_path))) == {}


def test_every_type_is_planted() -> None:
    assert set().union(*PLANTS.values()) == TYPES


def test_a_member_of_a_group_may_find_that_others_have_read() -> None:
    # Given a process that reads what its group gives it
    story = Story()
    story.send(1, sent(0, 10, 0), sent(0, 11, 1), sent(0, 12, 2))
    story.subscribe(3, 0, 1)
    story.poll(3, {0: [(0, 10)]})
    # When it goes on further ahead, and then back
    story.poll(3, {0: [(2, 12)]})
    story.poll(3, {0: [(1, 11)]})
    # Then that is told, and allowed
    found = findings(pair(story.lines))
    assert set(found) == {"poll-skip-subscribed", "nonmonotonic-poll-subscribed"}
    assert hard(found) == {}


def test_a_rebalance_may_move_a_key_between_polls_and_inside_them() -> None:
    story = Story()
    story.send(1, sent(0, 10, 0), sent(0, 11, 1), sent(0, 12, 2))
    story.assign(3, {0: 0})
    story.poll(3, {0: [(0, 10)]}, {0: [(2, 12)]}, moved=[0])
    story.poll(3, {0: [(1, 11)]})
    assert findings(pair(story.lines)) == {}


def test_an_operation_without_an_end_may_have_happened(tmp_path: Path) -> None:
    # Given a recorder that was killed while it wrote
    story = Story()
    story.send(1, sent(0, 10, 0))
    story.send(1, sent(0, 11, 1))
    page = story.write(tmp_path)
    page.write_text(page.read_text()[:-20])
    # When its history is read
    last = load(page)[-1]
    # Then the last operation is one whose end nobody knows
    assert (last.outcome, last.ended_ns) == (Outcome.INFO, NEVER_NS)
    assert [send.offset for send in last.sends] == [None]


@pytest.mark.parametrize("codes", [[7], [6, 7], [7, 45], [-1], [20], [56]])
def test_one_ambiguous_attempt_makes_a_failure_unknown(codes: list[int]) -> None:
    story = Story()
    story.send(1, sent(0, 10), outcome="fail", codes=codes)
    assert [one.outcome for one in pair(story.lines)] == [Outcome.INFO]


def test_a_process_does_one_thing_at_a_time() -> None:
    story = Story()
    story.send(1, sent(0, 10, 0), at=(1, 4))
    story.send(1, sent(0, 11, 1), at=(3, 5))
    with pytest.raises(MalformedHistory, match="not free"):
        pair(story.lines)


def test_a_crashed_process_is_never_used_again() -> None:
    story = Story()
    story.operation(1, "crash", None, outcome="info")
    story.send(1, sent(0, 10, 0))
    with pytest.raises(MalformedHistory, match="not free"):
        pair(story.lines)


def test_an_end_needs_an_operation() -> None:
    story = Story()
    story.send(1, sent(0, 10, 0))
    with pytest.raises(MalformedHistory, match="without an operation"):
        pair([story.lines[1]])


def test_a_value_is_sent_once() -> None:
    story = Story()
    story.send(1, sent(0, 10, 0))
    story.send(2, sent(0, 10, 1))
    with pytest.raises(MalformedHistory, match="sent twice"):
        findings(pair(story.lines))


def test_components_of_a_long_path_need_no_recursion() -> None:
    edges = {at: [at + 1] for at in range(50_000)} | {50_000: [49_998]}
    assert [len(one) for one in components(edges) if len(one) > 1] == [3]


def test_the_command_fails_on_a_violation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = Story()
    end_goes_back(story, True)
    assert main([str(story.write(tmp_path))]) == 1
    assert "end-offset-regressed                1" in capsys.readouterr().out


def test_the_command_passes_a_good_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = Story()
    unseen_at_the_end(story, False)
    assert main([str(story.write(tmp_path))]) == 0
    out = capsys.readouterr().out
    assert "3 operations, 2 sends, 2 reads; assign ok: 1, poll ok: 1, send ok: 1" in out
    assert "nothing found" in out


def test_a_history_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(tmp_path / "nowhere.jsonl")])
    assert ended.value.code == 2
    assert "nowhere.jsonl: No such file or directory" in capsys.readouterr().err


def test_the_table_shows_the_smallest_examples() -> None:
    found = {"unseen": [f"value {'1' * size}" for size in range(20, 0, -1)]}
    lines = table(found).splitlines()
    assert lines[0].split() == ["unseen", "20"]
    assert [line.strip() for line in lines[1:]] == [
        f"value {'1' * size}" for size in range(1, check.EXAMPLES + 1)
    ]


def test_a_line_of_the_file_is_json(tmp_path: Path) -> None:
    story = Story()
    story.send(1, sent(0, 10, 0))
    first = json.loads(story.write(tmp_path).read_text().splitlines()[0])
    assert first == {"i": 0, "e": "inv", "p": 1, "t": 1000, "f": "send", "v": [["send", 0, 10]]}
