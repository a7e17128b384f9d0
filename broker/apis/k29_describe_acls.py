"""DescribeAcls: v1-3. v2 flexible, v3 resources of users (KIP-373).

The answer is as new as the question. An ACL that another version stored and this one cannot read is
not shown; see `broker/security/acl_index.py` for what it does.

ACLs: DESCRIBE on the cluster.
"""

import asyncio

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.network.answer_when import Answer
from broker.refusals import CONDITIONS, Refusal, refusal_of
from broker.requests import NOT_THROTTLED, Request
from broker.security.acl_requests import MANY, AclFilter, Found, no_authorizer
from protocol.acl import AccessRule, ResourcePattern
from protocol.codec import encode_response


async def handle(request: Request) -> Payload | Answer:
    """Describe the ACLs that the filter matches."""
    wanted, services = AclFilter.of(request.decode()), request.services
    if not services.authorizer.enabled:
        return _response(request, no_authorizer())
    try:
        await services.entity_configs.refresh()
    except CONDITIONS as condition:
        return _response(request, refusal_of(condition))
    found = await wanted.find(services.authorizer.acls)
    if sum(len(rules) for _, rules in found) < MANY:
        return _describe(request, found)
    return await asyncio.to_thread(_encoded, request, found)


def _encoded(request: Request, found: Found) -> bytes:
    return encode_response(request.header.correlation_id, _describe(request, found))


def _describe(request: Request, found: Found) -> Payload:
    return _response(request, None, *[_resource(request, *each) for each in found])


def _resource(request: Request, pattern: ResourcePattern, rules: list[AccessRule]) -> object:
    types = request.types
    return types.DescribeAclsResource(
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        acls=tuple(
            types.AclDescription(
                principal=rule.principal,
                host=rule.host,
                operation=rule.operation,
                permission_type=rule.permission,
            )
            for rule in rules
        ),
    )


def _response(request: Request, refusal: Refusal | None, *resources: object) -> Payload:
    response: Payload = request.types.DescribeAclsResponse(
        throttle_time=NOT_THROTTLED,
        error_code=refusal.code if refusal else ErrorCode.none,
        error_message=str(refusal) if refusal else "",
        resources=resources,
    )
    return response
