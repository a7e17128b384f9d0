"""What patterns give the members of a consumer group where ACLs decide who may know of a topic.

It is found for all members at once, as Kafka resolves patterns for a group as a whole: were each
told with its own heartbeat, a new topic would go to the first of them, and to the next with the
next epoch, and so on, while partitions that they hold move to and fro. But each member gets what
its own user may know of; in Kafka, what the one may who was asked last.
"""

from dataclasses import replace

from coordinator.consumer_member import Member
from coordinator.consumer_members import Members
from coordinator.shown_topics import MOST_ASKED, Visibility
from coordinator.subscriptions import Subscription, Subscriptions


def shown_to(
    member: Member, subscriptions: Subscriptions, visible_to: Visibility | None
) -> Subscription:
    """Return what a member subscribes to, as its user may have it now.

    If nobody knows its user, as older versions did not write that down, it keeps what it has until
    its next heartbeat says who that is.
    """
    if visible_to is None or not member.subscription.pattern:
        return subscriptions.show(member.subscription, None)
    if member.principal is None:
        return subscriptions.drop_gone(member.subscription)
    visible = visible_to(member.principal, member.client_host)
    return subscriptions.show(member.subscription, visible)


def without_new(shown: Subscription, had: Subscription) -> Subscription:
    """Return what is shown, of a pattern that has shown topics before no others than these."""
    if had.visible is None or shown.visible is None:
        return shown
    stays = had.visible & shown.visible
    return had if stays == had.visible else replace(had, visible=stays)


def show_again(
    members: Members, subscriptions: Subscriptions, visible_to: Visibility | None
) -> bool | None:
    """Show all members what they may know of now; return whether it is something else for any.

    It is None, and they keep what they have, where so much is to be asked that others would wait
    too long: then this is to be called again, and goes on.
    """
    shown = list[tuple[Member, Subscription]]()
    most = subscriptions.shown.asked + MOST_ASKED
    for member in members:
        if subscriptions.shown.asked >= most:
            return None
        subscription = shown_to(member, subscriptions, visible_to)
        if subscription is not member.subscription:
            shown.append((member, subscription))
    subscriptions.shown.forget_unused()
    for member, subscription in shown:
        topic_ids = subscriptions.topic_ids(subscription)
        # while the group rests before the next assignment, it gets no more of what it has lost
        target = frozenset(one for one in member.target if one.topic_id in topic_ids)
        members.put(replace(member, subscription=subscription, target=target))
    return bool(shown)
