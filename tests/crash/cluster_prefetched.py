"""Sets aside what librdkafka had fetched for an earlier assignment and gives to the next one.

Seen with KIP-848: a member that had a partition for a third of a second, while brokers died, got it
again 89 seconds later. Four milliseconds after that, before it could know the committed offset, it
was given 408 records from offset 0 on; then it went on at the committed offset. No answer of a
broker makes a client do that, so it is neither an early beginning nor a skip.

Nothing else is set aside: the member must have had the partition before, and go on exactly at the
greatest offset that was committed when it got it.
"""

from itertools import dropwhile, takewhile

from tests.crash.cluster_checks import confirmed_before
from tests.crash.cluster_ledger import ClusterLedger, Ownership
from tests.crash.ledger import Read


def set_aside_prefetched(ledger: ClusterLedger) -> None:
    """Drop such records from the ownerships, and count them."""
    committed = confirmed_before(ledger)
    had: set[tuple[str, str, int]] = set()
    for owner in sorted(ledger.ownerships, key=lambda one: one.began_s):
        key = (owner.group, owner.member, owner.place)
        if key in had:
            ledger.prefetched += _set_aside(owner, committed(owner))
        had.add(key)


def _set_aside(owner: Ownership, committed: int) -> int:
    """Return how many were dropped."""

    def is_old(read: Read) -> bool:
        return read.position.offset < committed

    old = list(takewhile(is_old, owner.reads))
    new = list(dropwhile(is_old, owner.reads))
    went_on = old[-1].position.offset + 1 if old else 0
    if not old or not new or new[0].position.offset != committed or went_on == committed:
        return 0
    owner.reads.replace(new)
    return len(old)
