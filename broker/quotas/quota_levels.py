"""Which quota is a client's: the most specific that is set (KIP-55), by quota for itself."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from broker.quotas.quota_entities import CLIENT_ID, IP, USER, Parts

Levels = Mapping[str, Mapping[Parts, float]]
"""What is set of each quota, by quota and entity."""


@dataclass(frozen=True, slots=True)
class Found:
    """The quota of a client.

    Attributes:
        user: of those who share it; empty if users make no difference.
        client_id: likewise.
    """

    rate: float
    user: str
    client_id: str


def client_quota(levels: Mapping[Parts, float], user: str, client_id: str) -> Found | None:
    """Return the first that is set: of user and client id, of the user, of the client id.

    A named one goes before the default, the user before the client id. Who has a quota of a user
    shares it with all client ids of that user; who has one of a client id, with all its users.
    """
    for parts, shared_user, shared_client_id in _levels(user, client_id):
        rate = levels.get(parts)
        if rate is not None:
            return Found(rate, shared_user, shared_client_id)
    return None


def ip_quota(levels: Mapping[Parts, float], ip: str) -> float | None:
    """Return the quota of an address, or the one of all that have none."""
    named = levels.get(((IP, ip),))
    return levels.get(((IP, None),)) if named is None else named


def _levels(user: str, client_id: str) -> Iterator[tuple[Parts, str, str]]:
    for of_user in (user, None):
        for of_client in (client_id, None):
            yield ((CLIENT_ID, of_client), (USER, of_user)), user, client_id
        yield ((USER, of_user),), user, ""
    for of_client in (client_id, None):
        yield ((CLIENT_ID, of_client),), "", client_id
