"""What a pattern shows to whom is asked once."""

from uuid import UUID

from coordinator.shown_topics import ShownTopics
from coordinator.subscriptions import Subscription, Subscriptions
from tests.coordinator.consumer_simulation import catalog_of
from tests.coordinator.visible_world import Seen

ONE, TWO, THREE = UUID(int=1), UUID(int=2), UUID(int=3)
CATALOG = catalog_of(1, {"t1": (ONE, 1), "t2": (TWO, 1)})
LATER = catalog_of(2, {"t1": (ONE, 1), "t2": (TWO, 1), "t3": (THREE, 1)})


def test_nobody_asks_again_what_cannot_have_changed() -> None:
    # Given a pattern that two may see the same of
    subscriptions, wanted = Subscriptions(), Subscription(pattern="t.*")
    subscriptions.see(CATALOG)
    subscriptions.admit("t.*")
    first, second = Seen({"t1"}), Seen({"t1", "elsewhere"})
    shown = subscriptions.show(wanted, first)
    also_shown = subscriptions.show(wanted, second)
    assert first.asked == second.asked == 2

    # Then they share what they see, and their next heartbeats ask nobody
    assert shown.visible is also_shown.visible
    assert subscriptions.show(shown, first) is shown
    assert first.asked == 2

    # When others may be seen, then they do; when there are other topics, then of those
    assert subscriptions.show(shown, Seen({"t2"})).visible == frozenset({"t2"})
    subscriptions.see(LATER)
    assert subscriptions.show(shown, first).visible is subscriptions.show(shown, second).visible
    assert first.asked == second.asked == 3

    # When other rights count meanwhile, then they are what is asked for
    third = Seen({"t1"})
    third.edition = frozenset({"now"})
    subscriptions.show(shown, third)
    third.edition = frozenset({"later"})
    subscriptions.see(catalog_of(3, {"t4": (ONE, 1)}))
    assert third.asked == 3
    assert subscriptions.show(shown, third).visible == frozenset()

    # When the pattern is not in use any more, then nothing is remembered of it
    subscriptions.keep([])
    subscriptions.admit("t.*")
    assert subscriptions.show(shown, first).visible == frozenset()
    assert first.asked == 4


def test_what_members_were_shown_who_left_is_forgotten() -> None:
    # Given what a pattern shows to two
    shown, matched = ShownTopics(), frozenset({"t1", "t2"})
    stays, leaves = Seen({"t1"}), Seen({"t2"})
    for one in (stays, leaves):
        shown.find("t.*", matched, one, None)
    shown.forget_unused()

    # When all are shown again who are there, and one of them is not
    shown.find("t.*", matched, stays, None)
    shown.forget_unused()

    # Then what the other may see is asked again if it comes back, and nothing else
    for one in (stays, leaves):
        shown.find("t.*", matched, one, None)
    assert (stays.asked, leaves.asked, shown.asked) == (2, 4, 6)


def test_what_was_shown_by_rights_that_are_over_is_forgotten() -> None:
    # Given what a pattern shows to somebody, whether or not all others were shown theirs
    shown, matched = ShownTopics(), frozenset({"t1", "t2"})
    asks = Seen({"t1"})
    for edition in (1, 1, 2):
        shown.begin(edition)
        shown.find("t.*", matched, asks, None)

    # Then it was asked again when rights were others
    assert asks.asked == 2 * len(matched)
