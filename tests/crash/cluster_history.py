"""Reads the ledgers of members (cluster_member.py tells their lines) into the run's ledger."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaError

from tests.crash.cluster_ledger import ClusterLedger, Commit, Ownership
from tests.crash.ledger import Position

# What a member may be told while brokers are away, or while it was away: it goes on by itself.
_EXCUSED: Final = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._MAX_POLL_EXCEEDED,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._WAIT_COORD,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
    }
)


class MemberHistory:
    """One member's lines, in the order in which it wrote them."""

    def __init__(self, ledger: ClusterLedger, group: str, member: str) -> None:
        self._ledger = ledger
        self._group = group
        self._member = member
        self._owned: dict[int, Ownership] = {}

    def take(self, line: dict[str, Any]) -> None:
        match line["event"]:
            case "assigned":
                self._assigned(line)
            case "revoked" | "lost":
                self._end(line["places"], line)
            case "records":
                self._records(line)
            case "commit":
                self._commit(line)
            case "error":
                self._error(line)
            case event:
                raise AssertionError(f"{self._member} wrote {event}")

    def _assigned(self, line: dict[str, Any]) -> None:
        rebalances = self._ledger.rebalances
        rebalances[self._group] = rebalances.get(self._group, 0) + 1
        for place in line["places"]:
            self._owned[place] = self._ledger.own(
                self._group,
                self._member,
                place,
                generation=line["generation"],
                began_s=line["at_s"],
            )

    def _end(self, places: Iterable[int], line: dict[str, Any]) -> None:
        for place in places:
            owner = self._owned.pop(place, None)
            if owner is None:
                self._ledger.strays.append(f"{self._member} gave up {place}, which it had not")
                continue
            owner.ended, owner.ended_s = line["event"], line["at_s"]

    def _records(self, line: dict[str, Any]) -> None:
        place = line["place"]
        owner = self._owned.get(place)
        if owner is None:
            self._ledger.strays.append(f"{self._member} read {place} at {line['offsets'][:3]}")
            return
        columns = zip(line["offsets"], line["values"], line["times"], strict=True)
        for offset, value, at_s in columns:
            owner.reads.add(Position(place, offset), value, at_s)

    def _commit(self, line: dict[str, Any]) -> None:
        for place, offset in line["offsets"]:
            self._ledger.commits.append(
                Commit(
                    group=self._group,
                    member=self._member,
                    generation=line["generation"],
                    place=place,
                    offset=offset,
                    began_s=line["began_s"],
                    ended_s=line["at_s"],
                    confirmed=place in line["confirmed"],
                )
            )

    def _error(self, line: dict[str, Any]) -> None:
        if line["fatal"] or line["code"] not in _EXCUSED:
            self._ledger.log.complaints.append(f"{self._member}: {line['error']}")


def read_history(ledger: ClusterLedger, group: str, member: str, page: Path) -> None:
    """Add what a member wrote to the run's ledger."""
    history = MemberHistory(ledger, group, member)
    with page.open() as lines:
        for line in lines:
            history.take(json.loads(line))
