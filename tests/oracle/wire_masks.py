"""Answers as plain values that two brokers can agree on.

What has to differ (ids, hosts, times, sizes, texts) becomes a word that says only whether
something is there; ids become numbers in the order in which they are seen, so that two ids
that are the same in one answer are the same in the other.
"""

import dataclasses
import datetime as dt
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from protocol.batch import CODEC_MASK, HEADER_BYTES, batch_extents, read_header
from protocol.decompression import decompress
from protocol.records import decode_records
from tests.oracle.wire_values import Memory

Plain = Any
"""None, a boolean, a number, a string, bytes, or a list or dictionary of these."""

KEYED: Final[Mapping[tuple[int, str], str]] = {  # arrays without an order: what names an element
    (0, "partition_responses"): "index",
    (1, "partitions"): "partition_index",
    (2, "partitions"): "partition_index",
    (3, "topics"): "name",
    (9, "groups"): "group_id",
    (10, "coordinators"): "key",
    (11, "members"): "metadata",
    (15, "groups"): "group_id",
    (15, "members"): "member_id",
    (16, "groups"): "group_id",
    (18, "api_keys"): "api_key",
    (18, "finalized_features"): "name",
    (18, "supported_features"): "name",
    (19, "configs"): "name",
    (19, "topics"): "name",
    (20, "responses"): "name",
    (21, "partitions"): "partition_index",
    (24, "results_by_partition"): "partition_index",
    (24, "results_by_transaction"): "transactional_id",
    (27, "partitions"): "partition_index",
    (32, "configs"): "name",
    (32, "results"): "resource_name",
    (33, "responses"): "resource_name",
    (34, "partitions"): "partition_index",
    (35, "partitions"): "partition_index",
    (35, "topics"): "name",
    (37, "results"): "name",
    (42, "results"): "group_id",
    (43, "partition_result"): "partition_id",
    (44, "responses"): "resource_name",
    (45, "partitions"): "partition_index",
    (48, "entity"): "entity_type",
    (48, "entries"): "entity",
    (49, "entity"): "entity_type",
    (49, "entries"): "entity",
    (50, "results"): "user",
    (51, "results"): "user",
    (61, "active_producers"): "producer_id",
    (61, "partitions"): "partition_index",
    (65, "transaction_states"): "transactional_id",
    (66, "transaction_states"): "transactional_id",
    (69, "groups"): "group_id",
    (74, "config_resources"): "resource_name",
}
NUMBERED: Final[Mapping[str, str]] = {
    "topic_id": "topic id",
    "producer_id": "producer",
    "member_id": "member",
    "leader": "member",
    "client_instance_id": "client",
    "replica_directory_id": "directory",
}
PRESENT: Final[Mapping[str, str]] = {  # whatever is said, unless it is null or empty
    "error_message": "text",
    "batch_index_error_message": "text",
    "documentation": "text",
    "host": "host",
    "client_host": "host",
    "cluster_id": "cluster",
    "log_dir": "path",
}
LOG_ENDS: Final = frozenset({(55, "high_watermark"), (55, "log_end_offset")})
POSITIVE: Final[Mapping[str, str]] = {  # whatever number it is, unless it says that there is none
    "node_id": "node",
    "leader_id": "node",
    "controller_id": "node",
    "broker_id": "node",
    "replica_id": "node",
    "leader_epoch": "epoch",
    "port": "port",
    "session_id": "session",
    "subscription_id": "subscription",
    "log_append_time": "time",
    "last_timestamp": "time",
    "transaction_start_time": "time",
    "last_fetch_timestamp": "time",
    "last_caught_up_timestamp": "time",
    "finalized_features_epoch": "epoch",
    "total_bytes": "bytes",
    "usable_bytes": "bytes",
    "partition_size": "bytes",
    "coordinator_epoch": "epoch",
    "member_epoch": "epoch",
    "group_epoch": "epoch",
    "assignment_epoch": "epoch",
}
NODES: Final = frozenset({"replica_nodes", "isr_nodes", "replicas"})
ZERO_IS_NONE: Final = frozenset({"session_id", "member_epoch", "group_epoch", "assignment_epoch"})


class Masks:
    """Turns the answers of one replay of one case into plain values."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._numbers: dict[str, dict[Any, int]] = {}

    def plain(self, api_key: int, answer: Any) -> Plain:
        """Return an answer as nested lists and dictionaries, masked."""
        if dataclasses.is_dataclass(answer):
            return {
                one.name: self._field(api_key, one.name, getattr(answer, one.name))
                for one in dataclasses.fields(answer)
            }
        if isinstance(answer, tuple | list):
            return [self.plain(api_key, one) for one in answer]
        return self._memory.masked(answer) if isinstance(answer, str) else _scalar(answer)

    def _field(self, api_key: int, name: str, value: Any) -> Plain:
        if name in NUMBERED:
            return self._numbered(NUMBERED[name], value)
        if name == "records" and value:
            return self._batches(value)
        key = KEYED.get((api_key, name))
        if key is not None and value is not None:
            return self._keyed(api_key, key, value)
        return _word(api_key, name, self.plain(api_key, value))

    def _keyed(self, api_key: int, key: str, elements: Any) -> Plain:
        """Return elements by what names them; one that comes a second time is marked as such."""
        keyed: dict[str, Plain] = {}
        for one in sorted(elements, key=lambda one: _rank(one, key)):  # so are their ids
            plain = self.plain(api_key, one)
            name = str(plain[key] or plain.get("topic_id") or plain[key])
            while name in keyed:
                name += " again"
            keyed[name] = plain
        return keyed

    def _numbered(self, kind: str, value: Any) -> Plain:
        if value in (None, "", -1) or (isinstance(value, UUID) and value.int == 0):
            return None if isinstance(value, UUID) else value
        if value in self._memory.said:
            return self.plain(0, value)
        seen = self._numbers.setdefault(kind, {})
        return f"{kind} {seen.setdefault(value, len(seen) + 1)}"

    def _batches(self, records: bytes) -> Plain:
        data = memoryview(records)
        return [self._batch(data[at : at + size]) for at, size, _ in batch_extents(data)]

    def _batch(self, data: memoryview) -> Plain:
        header = read_header(data)
        payload = decompress(header.attributes & CODEC_MASK, data[HEADER_BYTES:])
        values = [
            (record.offset_delta, _text(record.key), _text(record.value))
            for record in decode_records(payload, header.record_count, from_producer=False)
        ]
        return {
            "base_offset": header.base_offset,
            "attributes": header.attributes,
            "last_offset_delta": header.last_offset_delta,
            "base_timestamp": "time" if header.is_control else header.base_timestamp_ms,
            "max_timestamp": "time" if header.is_control else header.max_timestamp_ms,
            "producer_id": self._numbered("producer", header.producer_id),
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "values": "marker" if header.is_control else values,
        }


def _rank(element: Any, key: str) -> tuple[str, list[bool]]:
    """Return what elements are sorted by; those of one name by what they do not say.

    Apache Kafka shuffles what it answers to a deletion of a topic by its name and by its id.
    """
    values = (getattr(element, one.name) for one in dataclasses.fields(element))
    return str(getattr(element, key)), [value is None for value in values]


def _scalar(value: Any) -> Plain:
    match value:
        case ErrorCode():
            return value.name
        case dt.timedelta():
            return round(value.total_seconds() * 1000)
        case dt.datetime():
            return round(value.timestamp() * 1000)
        case bytes():
            return value.hex()
        case UUID():
            return str(value)
        case _:
            return value


def _word(api_key: int, name: str, plain: Plain) -> Plain:
    """Return the word for what has to differ, if the field is of that kind."""
    if name in PRESENT and isinstance(plain, str) and plain:
        return PRESENT[name]
    if name in NODES:
        return ["node" for _ in plain]
    if (api_key, name) in LOG_ENDS and plain >= 0:
        return "offset"
    if name in POSITIVE and isinstance(plain, int):
        none = plain < 0 or (plain == 0 and name in ZERO_IS_NONE)
        return plain if none else POSITIVE[name]
    return plain


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def error_codes(plain: Plain) -> list[str]:
    """Return all error codes of an answer that are errors."""
    match plain:
        case Mapping():
            found = [
                str(value)
                for name, value in plain.items()
                if str(name).endswith("error_code") and value not in ("none", 0)
            ]
            return found + [code for one in plain.values() for code in error_codes(one)]
        case list():
            return [code for one in plain for code in error_codes(one)]
        case _:
            return []
