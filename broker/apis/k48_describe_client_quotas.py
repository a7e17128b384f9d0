"""DescribeClientQuotas: v0-1 (KIP-546). v1 flexible.

It tells what is set of each entity that the filter matches; what a client gets that has no quota of
its own is not worked out. The answer is as new as the question, and may be long: while it is made,
other requests get their turn.

ACLs: DESCRIBE_CONFIGS on the cluster.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.gradual import Gradually
from broker.quotas.quota_entities import QuotaEntity
from broker.quotas.quota_filters import quota_filter
from broker.refusals import CONDITIONS, Refusal, refusal_of
from broker.requests import NOT_THROTTLED, Request


async def handle(request: Request) -> Payload:
    """Describe the entities that match."""
    body, configs = request.decode(), request.services.entity_configs
    try:
        asked = quota_filter(
            [(one.entity_type, one.match_type, one.match) for one in body.components],
            strict=body.strict,
        )
        await configs.refresh()
    except CONDITIONS as condition:
        return refuse(request, refusal_of(condition))
    entities = tuple(request.services.quotas.table.entities.items())
    entries = [
        _entry(request, entity, quotas)
        async for entity, quotas in Gradually().each(entities)
        if asked.matches(entity)
    ]
    return _response(request, ErrorCode.none, "", entries)


def refuse(request: Request, refusal: Refusal) -> Payload:
    """Tell of no entities, which is not the same as that there are none."""
    return _response(request, refusal.code, str(refusal), None)


def _entry(request: Request, entity: QuotaEntity, quotas: Mapping[str, float]) -> object:
    types = request.types
    return types.EntryData(
        entity=tuple(
            types.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.parts
        ),
        values=tuple(types.ValueData(key=key, value=value) for key, value in quotas.items()),
    )


def _response(
    request: Request, code: ErrorCode, message: str, entries: Iterable[Any] | None
) -> Payload:
    response: Payload = request.types.DescribeClientQuotasResponse(
        throttle_time=NOT_THROTTLED,
        error_code=code,
        error_message=message,
        entries=None if entries is None else tuple(entries),
    )
    return response
