"""What a client is asked for (KIP-714): pure functions of the subscriptions and of what it is."""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import crc32c

from broker.network.client_session import ClientSession
from broker.telemetry.client_metrics_configs import (
    ALL_METRICS,
    MetricsSubscription,
    read_metrics_subscription,
)
from broker.telemetry.telemetry_points import MAX_TEXT

_NOTHING_ASKED: Final = read_metrics_subscription({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What one client is asked for.

    Attributes:
        subscription_id: of all that follows, for this client; signed, 32 bits.
        metrics: prefixes of names; ALL_METRICS alone for all, nothing for nothing.
    """

    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int


def wanted(
    subscriptions: Iterable[MetricsSubscription], facts: Mapping[str, str], instance_id: UUID
) -> Wanted:
    """Return what a client is asked for by all subscriptions that mean it.

    The shortest interval counts; where nothing is asked for, a client comes again after the
    default one.
    """
    interval_ms = _NOTHING_ASKED.interval_ms
    metrics: set[str] = set()
    for subscription in subscriptions:
        if subscription.matches(facts):
            metrics.update(subscription.metrics)
            interval_ms = min(interval_ms, subscription.interval_ms)
    if ALL_METRICS in metrics:
        metrics = {ALL_METRICS}
    in_order = tuple(sorted(metrics))
    checksum = crc32c.crc32c(f"{in_order}{interval_ms}".encode())
    for shift in range(0, 128, 32):  # each client's differs, so nobody takes another's for its own
        checksum ^= instance_id.int >> shift & 0xFFFF_FFFF
    signed = int.from_bytes(checksum.to_bytes(4, "big"), "big", signed=True)
    return Wanted(subscription_id=signed, metrics=in_order, interval_ms=interval_ms)


def kafka_text(value: UUID) -> str:
    """Return a UUID as Kafka's tools write it: 22 characters of base64url."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def client_facts(
    instance_id: UUID, client_id: str, peer: str, session: ClientSession
) -> Mapping[str, str]:
    """Return what subscriptions may look at; see client_metrics_configs.MATCH_KEYS.

    What a client says of itself is kept for as long as it comes, and stands in each of its series;
    so texts of more than MAX_TEXT characters are cut off.
    """
    address, _, port = peer.rpartition(":")
    return {
        "client_id": client_id[:MAX_TEXT],
        "client_instance_id": kafka_text(instance_id),
        "client_software_name": session.software_name[:MAX_TEXT],
        "client_software_version": session.software_version[:MAX_TEXT],
        "client_source_address": address,
        "client_source_port": port,
    }
