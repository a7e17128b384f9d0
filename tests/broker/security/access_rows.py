"""What access every API asks for: one good request or more of each, and what a refusal looks like.

Requests are dictionaries, as in the corpus of tests/oracle: "~" stands for what makes the names of
a row its own. There are a topic t-~ with a record, a group g-~ with an offset, and a transactional
id x-~; what is called new-~ is not there.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kio.schema.errors import ErrorCode

from protocol.acl import CLUSTER_NAME, Operation, ResourceType
from tests.oracle.wire_values import Batch, Saved

NO_CODE: Final = ErrorCode.none
T, G, X, NEW = "t-~", "g-~", "x-~", "new-~"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One ACL that a request needs.

    Attributes:
        at: where the refusal stands in the answer, by names and indexes; empty where what is not
            allowed is left out.
        code: what stands there; for a code that is no error, `hidden` tells what does.
        hidden: what is there instead of what may not be known.
    """

    operation: Operation
    resource_type: ResourceType
    name: str
    at: str = ""
    code: ErrorCode = NO_CODE
    hidden: object = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Row:
    """One kind of request.

    Attributes:
        name: tells the requests of an API apart.
        needs: ACLs, in the order in which the broker asks for them; none if anybody may ask.
        version: the highest one that is advertised, unless it is given.
        changes: a request that is allowed changes what the manager sees.
        opens: the transaction of x-~ has been begun, with t-~.
    """

    api_key: int
    name: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[Need, ...] = ()
    version: int | None = None
    changes: bool = False
    opens: bool = False

    def __str__(self) -> str:
        return f"k{self.api_key} {self.name}".strip()


CODES: Final = {
    ResourceType.TOPIC: ErrorCode.topic_authorization_failed,
    ResourceType.GROUP: ErrorCode.group_authorization_failed,
    ResourceType.CLUSTER: ErrorCode.cluster_authorization_failed,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.transactional_id_authorization_failed,
}


def _need(operation: Operation, kind: ResourceType, name: str, at: str) -> Need:
    return Need(operation=operation, resource_type=kind, name=name, at=at, code=CODES[kind])


def on_topic(operation: Operation, at: str, name: str = T) -> Need:
    return _need(operation, ResourceType.TOPIC, name, at)


def on_group(operation: Operation, at: str, name: str = G) -> Need:
    return _need(operation, ResourceType.GROUP, name, at)


def on_txn(operation: Operation, at: str) -> Need:
    return _need(operation, ResourceType.TRANSACTIONAL_ID, X, at)


def on_cluster(operation: Operation, at: str = "error_code") -> Need:
    return _need(operation, ResourceType.CLUSTER, CLUSTER_NAME, at)


def by_cluster(operation: Operation, at: str) -> Need:
    """Return an operation on the cluster that stands for the same one on each topic."""
    topic_code = CODES[ResourceType.TOPIC]
    return dataclasses.replace(on_cluster(operation, at), code=topic_code)


def seen(operation: Operation, kind: ResourceType, name: str) -> Need:
    """Return what a resource is left out without."""
    return Need(operation=operation, resource_type=kind, name=name)


def produced(batch: Batch, **values: Any) -> dict[str, Any]:
    topics = [{"name": T, "partition_data": [{"index": 0, "records": batch}]}]
    return {"acks": -1, "timeout": 10_000, "topic_data": topics} | values


TRANSACTIONAL: Final = Batch(
    transactional=True,
    producer_id=Saved("producer_id"),
    producer_epoch=Saved("producer_epoch"),
    base_sequence=0,
)
WHO: Final = {
    "transactional_id": X,
    "producer_id": Saved("producer_id"),
    "producer_epoch": Saved("producer_epoch"),
}
WHO_BEFORE: Final = {f"v3_and_below_{name}": value for name, value in WHO.items()}
OFFSETS: Final = [{"name": T, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
ELSEWHERE: Final = "10.9.9.9"
"""The address of somebody else, who may read g-~."""
