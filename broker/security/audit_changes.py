"""What administrative requests have changed, as the audit log tells it, by their answers.

Only what was done is told, and what may have been: who is refused has changed nothing, and could
fill the log with that. Values are not told where they could be secret: of configs only names, of
SCRAM credentials and delegation tokens nothing but whose they are.

Not here, because they never change anything: AlterReplicaLogDirs, ElectLeaders,
AlterPartitionReassignments and UpdateFeatures (see their files).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.configs.config_resources import ConfigResource
from broker.configs.config_rules import told_names
from broker.gradual import Gradually
from broker.requests import Request
from protocol.acl import Operation, PatternType, Permission, ResourceType

DONE: Final = "done"

_UNCERTAIN: Final = frozenset(
    {
        ErrorCode.request_timed_out,
        ErrorCode.unknown_server_error,
        ErrorCode.kafka_storage_error,
        ErrorCode.broker_not_available,
    }
)
"""After these it may have been done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One line of the audit log.

    Attributes:
        what: such as "topic created".
        name: of what was changed.
        code: what the client was answered of it.
        repeats: whether clients do it for ever, so that a line once an hour is enough.
    """

    what: str
    name: str
    code: ErrorCode
    details: Mapping[str, object] = field(default_factory=dict)
    repeats: bool = False


async def audit_changes(request: Request, response: Payload) -> None:
    """Write a line for each change that an answered request has made."""
    api = response.__api_key__
    async for change in Gradually().each(CHANGES[api](request, response)):
        if change.code is ErrorCode.none or change.code in _UNCERTAIN:
            request.services.audit.changed(
                request.session,
                change.what,
                api=request.api_name,
                client_id=request.header.client_id,
                outcome=DONE if change.code is ErrorCode.none else change.code.name,
                repeats=change.repeats and change.code is ErrorCode.none,
                name=change.name,
                **change.details,
            )


def _topics_created(request: Request, response: Any) -> Iterator[Change]:
    if request.decode().validate_only:
        return
    for topic in response.topics:
        yield Change(what="topic created", name=topic.name, code=topic.error_code)


def _topics_deleted(request: Request, response: Any) -> Iterator[Change]:
    del request
    for topic in response.responses:
        name = topic.name if topic.name is not None else str(topic.topic_id)
        yield Change(what="topic deleted", name=name, code=topic.error_code)


def _partitions_created(request: Request, response: Any) -> Iterator[Change]:
    body = request.decode()
    if body.validate_only:
        return
    counts = {topic.name: topic.count for topic in body.topics}
    for topic in response.results:
        details = {"partitions": counts.get(topic.name)}
        yield Change(
            what="partitions created", name=topic.name, code=topic.error_code, details=details
        )


def _records_deleted(request: Request, response: Any) -> Iterator[Change]:
    del request
    for topic in response.topics:
        for change in _of_partitions("records deleted", topic.name, topic.partitions):
            yield replace(change, repeats=True)


def _markers_written(request: Request, response: Any) -> Iterator[Change]:
    del request
    for marker in response.markers:
        for topic in marker.topics:
            details = {"producer_id": marker.producer_id}
            yield from _of_partitions(
                "transaction markers written", topic.name, topic.partitions, details
            )


def _groups_deleted(request: Request, response: Any) -> Iterator[Change]:
    del request
    for group in response.results:
        yield Change(what="group deleted", name=group.group_id, code=group.error_code)


def _offsets_deleted(request: Request, response: Any) -> Iterator[Change]:
    group_id = request.decode().group_id
    for topic in response.topics:
        details = {"topic": topic.name}
        yield from _of_partitions("offsets deleted", group_id, topic.partitions, details)


def _of_partitions(
    what: str, name: str, partitions: Iterable[Any], details: Mapping[str, object] | None = None
) -> Iterator[Change]:
    """Return one change of all partitions that were answered alike."""
    for code, count in Counter(one.error_code for one in partitions).items():
        yield Change(
            what=what, name=name, code=code, details={"partitions": count, **(details or {})}
        )


def _configs_altered(request: Request, response: Any) -> Iterator[Change]:
    body = request.decode()
    if body.validate_only:
        return
    for asked, answered in zip(body.resources, response.responses, strict=True):
        yield Change(
            what="configs altered",
            name=asked.resource_name,
            code=answered.error_code,
            details={
                "resource": _name(ConfigResource, asked.resource_type),
                "configs": told_names([each.name for each in asked.configs]),
            },
        )


def _quotas_altered(request: Request, response: Any) -> Iterator[Change]:
    if request.decode().validate_only:
        return
    for entry in response.entries:
        entity = ", ".join(
            f"{part.entity_type} {'(default)' if part.entity_name is None else part.entity_name}"
            for part in entry.entity
        )
        yield Change(what="quotas altered", name=entity, code=entry.error_code)


def _credentials_altered(request: Request, response: Any) -> Iterator[Change]:
    del request
    for user in response.results:
        yield Change(what="SCRAM credentials altered", name=user.user, code=user.error_code)


def _broker_unregistered(request: Request, response: Any) -> Iterator[Change]:
    node_id = str(request.decode().broker_id)
    yield Change(what="broker unregistered", name=node_id, code=response.error_code)


def _acls_created(request: Request, response: Any) -> Iterator[Change]:
    creations = request.decode().creations
    for asked, answered in zip(creations, response.results, strict=True):
        details = _acl(asked, asked.resource_pattern_type)
        yield Change(
            what="ACL created", name=asked.resource_name, code=answered.error_code, details=details
        )


def _acls_deleted(request: Request, response: Any) -> Iterator[Change]:
    del request
    deleted = {acl: None for answered in response.filter_results for acl in answered.matching_acls}
    for acl in deleted:
        details = _acl(acl, acl.pattern_type)
        yield Change(
            what="ACL deleted", name=acl.resource_name, code=acl.error_code, details=details
        )


def _acl(of: Any, pattern_type: int) -> Mapping[str, object]:
    return {
        "resource": _name(ResourceType, of.resource_type),
        "pattern": _name(PatternType, pattern_type),
        "permission": _name(Permission, of.permission_type),
        "operation": _name(Operation, of.operation),
        "acl_principal": of.principal,
        "acl_host": of.host,
    }


def _token_changed(what: str) -> "Changes":
    def changes(request: Request, response: Any) -> Iterator[Change]:
        del request
        name = getattr(response, "token_id", "")
        yield Change(what=what, name=name, code=response.error_code)

    return changes


def _name(kinds: Any, number: int) -> str:
    return kinds(number).name if number in set(kinds) else str(number)


Changes = Callable[[Request, Any], Iterable[Change]]

CHANGES: Final[Mapping[int, Changes]] = {
    19: _topics_created,
    20: _topics_deleted,
    21: _records_deleted,
    27: _markers_written,
    30: _acls_created,
    31: _acls_deleted,
    33: _configs_altered,
    37: _partitions_created,
    38: _token_changed("delegation token created"),
    39: _token_changed("delegation token renewed"),
    40: _token_changed("delegation token expired"),
    42: _groups_deleted,
    44: _configs_altered,
    47: _offsets_deleted,
    49: _quotas_altered,
    51: _credentials_altered,
    64: _broker_unregistered,
}
"""By API key."""
