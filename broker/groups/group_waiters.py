"""Requests for a group that is not in memory yet."""

from collections.abc import Callable
from dataclasses import dataclass, field

from broker.groups.group_runner import Answered, GroupRunner

Work = Callable[[GroupRunner | None, Answered], None]
"""Does what a request asks for and sees to its answer; the group is None if there is no such."""


@dataclass(frozen=True, slots=True)
class Waiter:
    """Who asks for a group.

    Attributes:
        create: whether it makes the group if there is none.
        overtakes: whether it may go before others if the group is in memory.
    """

    work: Work
    answer: Answered
    create: bool
    overtakes: bool = False

    def refuse(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


@dataclass(slots=True)
class Pause:
    """A group that is being taken, or changed in the store, and the requests for it meanwhile.

    Attributes:
        waiters: in order.
        is_overtaken: another broker may have had it since that began, or it was not ours then:
            so it is not known whether there is such a group, or what it is like now.
    """

    waiters: list[Waiter] = field(default_factory=list)
    is_overtaken: bool = False

    def refuse(self, error: BaseException) -> None:
        for waiter in self.waiters:
            waiter.refuse(error)
