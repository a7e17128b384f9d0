"""DescribeClientQuotas: v0-1 (KIP-546). v1 flexible.

It tells what is set of each entity that the filter matches; what a client gets that has no quota of
its own is not worked out. The answer is as new as the question.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.quota_entities import QuotaEntity, quota_values
from broker.quota_filters import quota_filter
from broker.refusals import CONDITIONS, refusal_of
from broker.requests import NOT_THROTTLED, Request
from storage.entity_configs import EntityKind


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
        refusal = refusal_of(condition)
        return _response(request, refusal.code, str(refusal), None)
    entities = (
        (QuotaEntity.from_text(text), quota_values(quotas))
        for text, quotas in configs.all(EntityKind.CLIENT_QUOTA).items()
    )
    entries = [_entry(request, *each) for each in entities if asked.matches(each[0])]
    return _response(request, ErrorCode.none, "", entries)


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
