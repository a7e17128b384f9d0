"""ACLs between people's words, librdkafka's classes, and JSON."""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final, TypeVar

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not marked as re-exports
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from streamctl.errors import UsageError
from streamctl.output import Json
from streamctl.wire import Wire, refused

K = TypeVar("K", ResourceType, AclOperation)

ANY_HOST: Final = "*"
OPERATIONS: Final = tuple(
    one.name.lower().replace("_", "-")
    for one in AclOperation
    if one not in (AclOperation.UNKNOWN, AclOperation.ANY)
)
_DESCRIBE_ACLS: Final = 29
_CLUSTER_NAME: Final = "kafka-cluster"
_CLUSTER: Final = ResourceType.BROKER  # librdkafka's word for it
_USER: Final = "User:"


def named_resource(
    topic: str | None, group: str | None, transactional_id: str | None, *, cluster: bool
) -> tuple[ResourceType, str] | None:
    """Return what the options name; None for nothing."""
    named = [
        (kind, name)
        for kind, name in (
            (ResourceType.TOPIC, topic),
            (ResourceType.GROUP, group),
            (ResourceType.TRANSACTIONAL_ID, transactional_id),
            (_CLUSTER, _CLUSTER_NAME if cluster else None),
        )
        if name is not None
    ]
    if len(named) > 1:
        raise UsageError("give one of --topic, --group, --transactional-id and --cluster")
    return named[0] if named else None


def acl_filters(
    kind: ResourceType,
    name: str | None,
    pattern: ResourcePatternType,
    *,
    user: str | None,
    operations: Sequence[str] = (),
) -> list[AclBindingFilter]:
    """Return filters, of which an ACL has to fit one; None fits everything."""
    principals = [None] if user is None else principals_of(user)
    wanted = list(dict.fromkeys(map(operation_of, operations))) or [AclOperation.ANY]
    return [
        AclBindingFilter(
            *(kind, name, pattern, principal),  # type: ignore[arg-type]  # None is any
            *(None, operation, AclPermissionType.ANY),  # type: ignore[arg-type]  # here, too
        )
        for principal in principals
        for operation in wanted
    ]


def principals_of(user: str) -> list[str]:
    """Return the principals by which ACLs may name a user.

    A name with a colon was once taken for a principal itself, and such ACLs are still there.
    """
    principal = principal_of(user)
    return [principal, user] if ":" in user and user != principal else [principal]


def principal_of(user: str) -> str:
    """Return the principal of a user's name, which may be one already.

    Nobody who logs in is of another type, but names may have colons, as those of Kubernetes'
    service accounts have: if what is before one were a type, the ACL would count for nobody.
    """
    return user if user.startswith(_USER) else f"{_USER}{user}"


def operation_of(text: str) -> AclOperation:
    """Return the operation that people write; a mistake is a usage error."""
    if text.lower() not in OPERATIONS:
        raise UsageError(f"--operation {text}: use one of {', '.join(OPERATIONS)}")
    return AclOperation[text.upper().replace("-", "_")]


def find_acls(wire: Wire, filters: Iterable[AclBindingFilter]) -> list[AclBinding]:
    """Return the ACLs that fit one of the filters, sorted.

    librdkafka 2.16 finds none when this is refused, so it is not asked.

    Raises:
        Failure: the broker refused, or nobody answers.
    """
    return sorted({found for wanted in filters for found in _fitting(wire, wanted)}, key=_order)


def _fitting(wire: Wire, wanted: AclBindingFilter) -> list[AclBinding]:
    answer = wire.ask(
        _DESCRIBE_ACLS,
        resource_type_filter=_number(wanted.restype),
        resource_name_filter=wanted.name,
        pattern_type_filter=_number(wanted.resource_pattern_type),
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=_number(wanted.operation),
        permission_type=_number(wanted.permission_type),
    )
    if answer.error_code:
        raise refused("ACLs", answer.error_code, answer.error_message, needs="describe --cluster")
    return [
        AclBinding(
            _known(ResourceType, resource.resource_type),
            resource.resource_name,
            ResourcePatternType(resource.pattern_type),
            acl.principal,
            acl.host,
            _known(AclOperation, acl.operation),
            AclPermissionType(acl.permission_type),
        )
        for resource in answer.resources
        for acl in resource.acls
    ]


def _order(binding: AclBinding) -> tuple[str, ...]:
    return tuple(str(value) for value in as_json(binding).values())


def as_json(binding: AclBinding) -> dict[str, Json]:
    """Return an ACL for programs."""
    kind = "cluster" if binding.restype is _CLUSTER else _name(binding.restype)
    return {
        "resource": kind,
        "name": binding.name,
        "pattern": _name(binding.resource_pattern_type),
        "principal": binding.principal,
        "host": binding.host,
        "operation": _name(binding.operation),
        "permission": _name(binding.permission_type),
    }


def sentence(binding: AclBinding) -> str:
    """Return an ACL as people say it."""
    row = as_json(binding)
    name = f"{row['name']}*" if row["pattern"] == "prefixed" else row["name"]
    host = "" if row["host"] == ANY_HOST else f" from {row['host']}"
    allowed = row["permission"] == "allow"
    verb = f"may {'' if allowed else 'not '}{row['operation']}"
    if row["operation"] == "all":
        verb = f"may do {'everything' if allowed else 'nothing'} with"
    return f"{row['principal']} {verb} {row['resource']} {name}{host}"


def _number(value: object) -> int:
    assert isinstance(value, Enum)
    return int(value.value)


def _known(kind: type[K], number: int) -> K:
    """Return the word for a number; librdkafka has none for delegation tokens and users."""
    return kind(number) if number in {one.value for one in kind} else kind["UNKNOWN"]


def _name(value: object) -> str:
    assert isinstance(value, Enum)
    return value.name.lower().replace("_", "-")
