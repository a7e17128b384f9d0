"""A reader that gets nothing, though there is more, says what it waits for, and why."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from streamctl.connection import Connection, Trouble
from streamctl.errors import BrokerUnreachable, Failure
from streamctl.fetch_refusals import fetch_refusals
from streamctl.output import note

LOOK_EVERY_S: Final = 5.0
GIVE_UP_S: Final = 30.0


class StallWatch:
    """Asks brokers about partitions that do not move.

    Args:
        connection: how the cluster is reached.
        topic: that is read.
        trouble: what the reader's client heard of brokers it does not reach.
        gives_up: end a reader that nothing comes to for GIVE_UP_S because brokers refuse it.
    """

    def __init__(
        self, connection: Connection, topic: str, trouble: Trouble, *, gives_up: bool
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._trouble = trouble
        self._gives_up = gives_up
        self._seen: dict[int, int] = {}
        self._said: set[str] = set()
        self._moved = time.monotonic()
        self._looked = self._moved - LOOK_EVERY_S

    def look(self, behind: Mapping[int, int]) -> None:
        """Look, if it is time to.

        Args:
            behind: next offset to read, by partition that is not finished.

        Raises:
            Failure: it is time to give up.
        """
        now = time.monotonic()
        if now - self._looked < LOOK_EVERY_S:
            return
        still = {at: offset for at, offset in behind.items() if self._seen.get(at) == offset}
        reasons = self._reasons(still) if still else []
        if len(still) < len(behind) or not reasons:
            self._moved = now
        self._seen = dict(behind)
        self._looked = time.monotonic()
        if self._gives_up and reasons and self._looked - self._moved >= GIVE_UP_S:
            raise reasons[0]
        self._say(reasons)

    def give_up(self, behind: Mapping[int, int]) -> None:
        """End a reader that waits no longer, and was to read to an end.

        Args:
            behind: as `look` takes it.

        Raises:
            Failure: why nothing came, or that it did not; not if all is finished.
        """
        if reasons := self._reasons(behind):
            raise reasons[0]
        if behind:
            where = ", ".join(f"{at}@{offset}" for at, offset in sorted(behind.items()))
            raise Failure(
                f"nothing came from {where} in time: not read to the end",
                fix="wait longer: --timeout, or leave it out",
            )

    def _say(self, reasons: Sequence[Failure]) -> None:
        """Say what has not just been said."""
        for reason in reasons:
            if reason.message not in self._said:
                note("; ".join(filter(None, (reason.message, reason.fix))))
        self._said = {reason.message for reason in reasons}

    def _reasons(self, still: Mapping[int, int]) -> list[Failure]:
        """Return why nothing comes from these partitions and offsets; none if nobody refuses."""
        try:
            refusals = fetch_refusals(self._connection, self._topic, still)
        except BrokerUnreachable as unreachable:
            # the client itself may be let in by means that this way of asking has not
            refusals = dict.fromkeys(still, unreachable) if self._trouble.all_brokers_down else {}
        except Failure:
            refusals = {}
        places: dict[str, list[str]] = defaultdict(list)
        for at in sorted(refusals):
            places[refusals[at].message].append(f"{at}@{still[at]}")
        fixes = {refusal.message: refusal.fix for refusal in refusals.values()}
        return [
            Failure(f"nothing comes from {', '.join(where)}: {said}", fix=fixes[said])
            for said, where in places.items()
        ]
