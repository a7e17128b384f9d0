"""CreateAcls: v1-3. v2 flexible, v3 resources of users (KIP-373).

Each ACL answers for itself. Those that can be are created together, or none; they are in force here
with the answer, and on every other broker within a second. One that there is already stays.

ACLs: ALTER on the cluster.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.gradual import Gradually
from broker.refusals import CONDITIONS, Refusal, refusal_of
from broker.requests import NOT_THROTTLED, Request
from broker.security.acl_index import AclIndex
from broker.security.acl_requests import check_known, no_authorizer, read_creation
from broker.security.acls import MAX_ACLS, MAX_ACLS_PER_RESOURCE, acl_changes
from protocol.acl import AccessRule, Acl, ResourcePattern


async def handle(request: Request) -> Payload:
    """Create the ACLs that can be."""
    creations = request.decode().creations
    async for asked in Gradually().each(creations):
        check_known(
            asked.resource_type,
            asked.resource_pattern_type,
            asked.operation,
            asked.permission_type,
        )
    if not request.services.authorizer.enabled:
        return await request.aside(_respond, request, [no_authorizer()] * len(creations))
    refusals: Sequence[Refusal | None]
    try:
        refusals = await _create(request, creations)
    except CONDITIONS as condition:
        refusals = [refusal_of(condition)] * len(creations)
    return await request.aside(_respond, request, refusals)


def refuse(request: Request, refusal: Refusal) -> Payload:
    """Answer each creation with the refusal."""
    return _respond(request, [refusal] * len(request.decode().creations))


def _respond(request: Request, refusals: Iterable[Refusal | None]) -> Payload:
    """Answer each creation with why it was not done, if so."""
    types = request.types
    response: Payload = types.CreateAclsResponse(
        throttle_time=NOT_THROTTLED,
        results=tuple(
            types.AclCreationResult(
                error_code=refusal.code if refusal else ErrorCode.none,
                error_message=str(refusal) if refusal else "",
            )
            for refusal in refusals
        ),
    )
    return response


async def _create(request: Request, creations: Sequence[Any]) -> list[Refusal | None]:
    configs = request.services.entity_configs
    await configs.refresh()  # what another broker has just deleted is to be created again
    plan = _Plan(request.services.authorizer.acls)
    refusals = [plan.add(asked) async for asked in Gradually().each(creations)]
    if changes := acl_changes(created=plan.new):
        await configs.alter(changes)
    return refusals


class _Plan:
    """What is to be created, within the limits.

    Attributes:
        new: ACLs that there are not yet.
    """

    def __init__(self, acls: AclIndex) -> None:
        self.new: list[Acl] = []
        self._acls = acls
        self._rules: dict[ResourcePattern, set[AccessRule]] = {}

    def add(self, asked: Any) -> Refusal | None:
        """Take note of one creation; return why it cannot be, if so."""
        try:
            acl = read_creation(asked)
        except Refusal as refusal:
            return refusal
        rules = self._rules.get(acl.pattern)
        if rules is None:
            rules = self._rules[acl.pattern] = set(self._acls.rules(acl.pattern) or ())
        if acl.rule in rules:
            return None
        if len(rules) >= MAX_ACLS_PER_RESOURCE:
            return _too_many(MAX_ACLS_PER_RESOURCE, "one resource")
        if len(self._acls) + len(self.new) >= MAX_ACLS:
            return _too_many(MAX_ACLS, "all resources")
        rules.add(acl.rule)
        self.new.append(acl)
        return None


def _too_many(limit: int, whose: str) -> Refusal:
    return Refusal(
        ErrorCode.policy_violation, f"There are at most {limit} ACLs of {whose}: delete some first."
    )
