"""DeleteAcls: v1-3. v2 flexible, v3 resources of users (KIP-373).

Each filter answers for itself, with all that it matches, whether another matches it or not. What
they match is deleted together, or nothing; it is gone here with the answer, and on every other
broker within a second. Filters that match more than MAX_MATCHES together delete nothing.

ACLs: ALTER on the cluster.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.gradual import Gradually
from broker.refusals import CONDITIONS, Refusal, refusal_of
from broker.requests import NOT_THROTTLED, Request
from broker.security.acl_requests import AclFilter, as_acls, no_authorizer
from broker.security.acls import acl_changes
from protocol.acl import Acl

Matched = list[Acl] | Refusal
"""What a filter matches, or why it deletes nothing."""

MAX_MATCHES: Final = 10_000
"""As many as Kafka deletes at a time. An ACL counts for each filter that matches it: it is in the
answer so often."""


async def handle(request: Request) -> Payload:
    """Delete what the filters match."""
    filters = await Gradually().made(map(AclFilter.of, request.decode().filters))
    if not request.services.authorizer.enabled:
        return await request.aside(_respond, request, [no_authorizer()] * len(filters))
    matched: Sequence[Matched]
    try:
        matched = await _delete(request, filters)
    except CONDITIONS as condition:
        matched = [refusal_of(condition)] * len(filters)
    return await request.aside(_respond, request, matched)


def refuse(request: Request, refusal: Refusal) -> Payload:
    """Answer each filter with the refusal."""
    return _respond(request, [refusal] * len(request.decode().filters))


async def _delete(request: Request, filters: Iterable[AclFilter]) -> list[Matched]:
    configs = request.services.entity_configs
    await configs.refresh()  # what another broker has just created can be deleted
    matched: list[Matched] = []
    left = MAX_MATCHES
    for wanted in filters:
        found = await _matched(request, wanted)
        matched.append(found)
        left -= 0 if isinstance(found, Refusal) else len(found)
        if left < 0:
            message = f"Cannot remove more than {MAX_MATCHES} acls in a single delete operation."
            raise Refusal(ErrorCode.invalid_request, message)
        await asyncio.sleep(0)  # each looks at all ACLs; other requests get their turn
    doomed = {acl: None for each in matched if not isinstance(each, Refusal) for acl in each}
    if doomed:
        await configs.alter(acl_changes(deleted=doomed))
    return matched


async def _matched(request: Request, wanted: AclFilter) -> Matched:
    try:
        wanted.check()
    except Refusal as refusal:
        return refusal
    return as_acls(await wanted.find(request.services.authorizer.acls))


def _respond(request: Request, matched: Iterable[Matched]) -> Payload:
    response: Payload = request.types.DeleteAclsResponse(
        throttle_time=NOT_THROTTLED,
        filter_results=tuple(_result(request, each) for each in matched),
    )
    return response


def _result(request: Request, matched: Matched) -> object:
    types = request.types
    if isinstance(matched, Refusal):
        return types.DeleteAclsFilterResult(
            error_code=matched.code, error_message=str(matched), matching_acls=()
        )
    return types.DeleteAclsFilterResult(
        error_code=ErrorCode.none,
        error_message=None,
        matching_acls=tuple(
            types.DeleteAclsMatchingAcl(
                error_code=ErrorCode.none,
                error_message=None,
                resource_type=acl.pattern.resource_type,
                resource_name=acl.pattern.name,
                pattern_type=acl.pattern.pattern_type,
                principal=acl.rule.principal,
                host=acl.rule.host,
                operation=acl.rule.operation,
                permission_type=acl.rule.permission,
            )
            for acl in matched
        ),
    )
