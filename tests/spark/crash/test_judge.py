"""The judge of crash tests sees each kind of wrong result."""

from tests.spark.crash.judge import disordered, violations


def test_an_equal_result_is_right_in_any_order() -> None:
    assert violations([1, 2, 3], [3, 1, 2]) == []


def test_a_lost_record_is_seen() -> None:
    assert violations([1, 2, 3], [1, 3]) == ["1 lost: 2"]


def test_a_record_that_is_there_twice_is_seen() -> None:
    assert violations([1, 2, 3], [1, 2, 2, 3]) == ["1 too often: 2"]


def test_what_is_expected_twice_may_be_there_twice_and_not_once() -> None:
    assert violations([1, 1], [1, 1]) == []
    assert violations([1, 1], [1]) == ["1 lost: 1"]


def test_an_aborted_record_is_told_from_one_that_was_never_sent() -> None:
    # When a result has one of each
    found = violations([1], [1, 7, 9], lambda number: number == 7)

    # Then each is named for what it is
    assert found == ["1 invisible, yet read: 7", "1 never sent: 9"]


def test_a_change_of_order_within_a_key_is_seen() -> None:
    assert disordered({"a": [1, 2], "b": [3]}, {"a": [1, 2], "b": [3]}) == []
    assert disordered({"a": [1, 2]}, {"a": [2, 1]}) == ["key 'a': 2 where 1 belongs, at 0"]
    assert disordered({"a": [1, 2]}, {"a": [1]}) == ["key 'a': 1 records, not 2"]
    assert disordered({"a": [1]}, {}) == ["key 'a': 0 records, not 1"]
