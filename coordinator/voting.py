"""Which protocol (assignor) a generation of a classic group follows."""

from collections import Counter
from collections.abc import Sequence


def select_protocol(preferences: Sequence[Sequence[str]]) -> str:
    """Return the protocol with the most votes.

    Every member votes for the first of its protocols that all members support. Kafka leaves a tie
    to the order of a hash table; here the protocol that the earliest member voted for wins, so that
    every coordinator decides alike.

    Args:
        preferences: the protocol names of each member, best first; at least one is in all of them.
    """
    candidates = set(preferences[0]).intersection(*preferences[1:])
    votes = Counter(next(name for name in names if name in candidates) for names in preferences)
    return votes.most_common(1)[0][0]
