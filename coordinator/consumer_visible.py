"""What patterns give the members of a consumer group where ACLs decide who may know of a topic.

It is found for all members at once, as Kafka resolves patterns for a group as a whole: were each
told with its own heartbeat, a new topic would go to the first of them, and to the next with the
next epoch, and so on, while partitions that they hold move to and fro. But each member gets what
its own user may know of; in Kafka, what the one may who was asked last.
"""

from collections.abc import Hashable
from dataclasses import replace
from typing import Final

from coordinator.consumer_member import Member
from coordinator.consumer_members import Members
from coordinator.shown_topics import MOST_ASKED, Visibility
from coordinator.subscriptions import Subscription, Subscriptions

KEPT_BACK_MS: Final = 10_000
"""How long a topic that members may know of waits until it can come to all of them at once."""


class ShownMembers:
    """What the members of one group are shown, by ACLs as they were when it was called last."""

    def __init__(self, members: Members, subscriptions: Subscriptions) -> None:
        self._members = members
        self._subscriptions = subscriptions
        self._shows_all_of: Hashable = None
        """Edition of the ACLs by which all members were shown what they may know of."""
        self._keeps_back_until_ms: int | None = None

    def is_complete(self, visible_to: Visibility | None) -> bool:
        """Whether all members have been shown what they may know of by ACLs as they are now."""
        return visible_to is None or visible_to.edition == self._shows_all_of

    def to_one(self, member: Member, visible_to: Visibility | None, now_ms: int) -> Subscription:
        """Return what a member subscribes to, as its user may have it now.

        What is new to it waits until it comes to all, but no longer than KEPT_BACK_MS, for ACLs may
        change all the time; what it has lost goes at once.
        """
        shown = self._shown_to(member, visible_to)
        until_ms = self._keeps_back_until_ms
        is_kept_back = until_ms is not None and now_ms < until_ms
        return _without_new(shown, member.subscription) if is_kept_back else shown

    def see(self, visible_to: Visibility | None, now_ms: int, *, topics_changed: bool) -> bool:
        """Show all members what they may know of now; tell whether it is something else for any.

        Where so much is to be asked that others would wait too long, they keep what they have, but
        for topics that are gone, and the next call goes on.
        """
        changed = self._show_again(visible_to)
        if changed is None:
            self._shows_all_of = None
            if self._keeps_back_until_ms is None:
                self._keeps_back_until_ms = now_ms + KEPT_BACK_MS
            if topics_changed:
                self._drop_gone()
            return False
        self._keeps_back_until_ms = None
        self._shows_all_of = None if visible_to is None else visible_to.edition
        return changed

    def _shown_to(self, member: Member, visible_to: Visibility | None) -> Subscription:
        """Return what a member may have now.

        If nobody knows its user, as older versions did not write that down, it keeps what it has
        until its next heartbeat says who that is.
        """
        if visible_to is None or not member.subscription.pattern:
            return self._subscriptions.show(member.subscription, None)
        if member.principal is None:
            return self._subscriptions.drop_gone(member.subscription)
        visible = visible_to(member.principal, member.client_host)
        return self._subscriptions.show(member.subscription, visible)

    def _show_again(self, visible_to: Visibility | None) -> bool | None:
        """Show all members what they may have; none of them, and None, if that is much to ask."""
        answers = self._subscriptions.shown
        if visible_to is not None:
            answers.begin(visible_to.edition)
        most = answers.asked + MOST_ASKED
        shown = list[tuple[Member, Subscription]]()
        for member in self._members:
            if answers.asked >= most:
                return None
            subscription = self._shown_to(member, visible_to)
            if subscription is not member.subscription:
                shown.append((member, subscription))
        answers.forget_unused()
        for member, subscription in shown:
            topic_ids = self._subscriptions.topic_ids(subscription)
            # while the group rests before the next assignment, it gets no more of what it has lost
            target = frozenset(one for one in member.target if one.topic_id in topic_ids)
            self._members.put(replace(member, subscription=subscription, target=target))
        return bool(shown)

    def _drop_gone(self) -> None:
        """Show no member topics any more that are gone; nobody is asked for that."""
        subscriptions = self._members.subscriptions()
        left = {one: self._subscriptions.drop_gone(one) for one in subscriptions}
        for member in tuple(self._members):
            subscription = left[member.subscription]
            if subscription is not member.subscription:
                self._members.put(replace(member, subscription=subscription))


def _without_new(shown: Subscription, had: Subscription) -> Subscription:
    """Return what is shown, of a pattern that has shown topics before no others than these."""
    if had.visible is None or shown.visible is None:
        return shown
    stays = had.visible & shown.visible
    if stays == shown.visible:
        return shown  # whose set is shared
    return had if stays == had.visible else replace(had, visible=stays)
