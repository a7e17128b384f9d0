"""Rates over virtual time: what a client may use at once, how long it waits, what it gets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.quotas.quota_buckets import MAX_WAIT_S, MIN_WAIT_S, MOST_OWED, TokenBucket


def bucket(rate: float, *, burst_s: float = 10) -> TokenBucket:
    return TokenBucket(rate, burst_s=burst_s, now_s=0)


def forgetful(rate: float, *, burst_s: float = 10) -> TokenBucket:
    return TokenBucket(rate, burst_s=burst_s, now_s=0, forgets=True)


def test_the_first_burst_is_free_and_what_is_more_is_waited_for() -> None:
    # Given 1,000 bytes a second over Kafka's default window, unused
    quota = bucket(1000)

    # When 10,000 bytes are taken, then there is no wait; 5,000 more are 5 s of it
    quota.take(10_000, 0)
    assert quota.wait_s(0) == 0
    quota.take(5000, 0)
    assert quota.wait_s(0) == 5

    # And it gets shorter with time, which does not save up more than the burst
    assert quota.wait_s(4) == 1
    assert quota.wait_s(5) == 0
    quota.take(10_020, 1000)
    assert quota.wait_s(1000) == pytest.approx(0.02)
    assert quota.wait_s(1000.015) == 0, "timers are not that exact"


def test_a_wait_can_be_asked_about_before_anything_is_taken() -> None:
    quota = bucket(100, burst_s=1)
    assert quota.wait_s(0, more=100) == 0
    assert quota.wait_s(0, more=150) == 0.5


def test_no_wait_is_longer_than_the_protocol_can_say() -> None:
    quota = bucket(1e-9)
    quota.take(1e9, 0)
    assert quota.wait_s(0) == MAX_WAIT_S


def test_rates_too_small_or_too_large_to_reckon_with_are_no_errors() -> None:
    # Given the smallest and the largest quota that can be set
    quota = bucket(5e-324)
    quota.take(1, 0)
    assert quota.wait_s(0) == MAX_WAIT_S
    quota = bucket(1.7e308)
    assert quota.wait_s(0) == 0

    # When the one becomes the other, then it is in force
    quota.change_rate(5e-324, 0)
    quota.take(1, 0)
    assert quota.wait_s(0) == MAX_WAIT_S


def test_a_new_rate_shortens_the_wait_for_what_is_owed() -> None:
    # Given a client that owes 1,000 s of its rate
    quota = bucket(1)
    quota.take(1010, 0)
    assert quota.wait_s(0) == 1000

    # When the rate is raised, then it owes as much, which is less time
    quota.change_rate(1000, 0)
    assert quota.wait_s(0) == 1

    # And what is saved up is as many seconds after a change as before
    quota = bucket(1000)
    quota.change_rate(10, 0)
    assert quota.wait_s(0, more=100) == 0
    assert quota.wait_s(0, more=110) == 1


def test_who_takes_far_too_much_owes_it_alone() -> None:
    # Given 100 KB a second that many share
    quota = forgetful(100_000)

    # When one of them takes 36 MB, then it waits for all of that, and the others ten seconds
    assert quota.take(36_000_000, 0) == 350
    assert quota.wait_s(0) == 10
    assert quota.take(1000, 5) == pytest.approx(5.01)
    assert quota.wait_s(11) == 0

    # And another 36 MB are ten seconds more, for as long as that is a minute
    for _ in range(100):
        quota.take(36_000_000, 11)
    assert quota.wait_s(11) == MOST_OWED * 10


def test_what_is_owed_at_a_high_rate_does_not_last_for_hours_of_a_low_one() -> None:
    quota = forgetful(1_000_000)
    quota.take(20_000_000, 0)
    quota.change_rate(100, 0)
    assert quota.wait_s(0) == MOST_OWED * 10


def test_many_who_share_a_quota_get_no_more_than_it_says() -> None:
    # Given 40 connections that each send a second's worth as soon as they may
    quota, used = forgetful(1_000_000), 0
    may_send_s = [0.0] * 40
    while (now_s := min(may_send_s)) < 600:
        used += 1_000_000
        may_send_s[may_send_s.index(now_s)] = now_s + quota.take(1_000_000, now_s)

    # Then they get the rate, after the burst and one batch of each
    assert used <= 1_000_000 * (600 + 10 + 40)


@given(
    sizes=st.lists(st.integers(1, 5000), min_size=10, max_size=30),
    pauses=st.lists(st.floats(0, 2), min_size=30, max_size=30),
)
def test_who_waits_as_told_gets_its_rate_and_one_burst(
    sizes: list[int], pauses: list[float]
) -> None:
    """A client waits as it is told, and some more: it never gets more than its quota."""
    quota, now_s, used = bucket(1000, burst_s=2), 0.0, 0
    for size, pause_s in zip(sizes, pauses, strict=False):
        quota.take(size, now_s)
        used += size
        now_s += quota.wait_s(now_s) + pause_s
    assert used <= 1000 * (now_s + MIN_WAIT_S) + 2000 + max(sizes)


def test_a_busy_client_gets_its_rate_and_no_second_burst() -> None:
    # Given a client that always sends again as soon as it may
    quota, now_s = bucket(1_000_000), 0.0
    by_second = [0] * 60
    while now_s < 60:
        quota.take(100_000, now_s)
        by_second[int(now_s)] += 100_000
        now_s += max(quota.wait_s(now_s), 0.001)

    # Then after its burst each second has what the quota says
    assert by_second[0] >= 10_000_000
    assert all(900_000 <= one <= 1_100_000 for one in by_second[1:])
