"""AlterClientQuotas: v0-1 (KIP-546). v1 flexible.

Each entity answers for itself. What can be done is done together, or not at all; it is in force
here with the answer, and on every other broker within about a second. While many are gone through,
other requests get their turn. Of more than 10,000 quotas that change none does: POLICY_VIOLATION.

ACLs: ALTER_CONFIGS on the cluster.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.configs.entity_configs import check_size
from broker.gradual import Gradually
from broker.quotas.quota_changes import QuotaAlteration, plan_quotas
from broker.quotas.quota_entities import QuotaEntity
from broker.refusals import CONDITIONS, Refusal, refusal_of
from broker.requests import NOT_THROTTLED, Request
from storage.metadata.entity_configs import EntityChange, EntityKind


async def handle(request: Request) -> Payload:
    """Set and remove quotas, or only say which can be (validate_only)."""
    body = request.decode()
    gradually = Gradually()
    alterations = await gradually.made(map(_alteration, body.entries))
    configs = request.services.entity_configs

    async def alter() -> Mapping[QuotaEntity, EntityChange | Refusal]:
        await configs.refresh()  # what another broker has just set can be removed
        plans = await plan_quotas(alterations, partial(configs.get, EntityKind.CLIENT_QUOTA))
        changes = [one for one in plans.values() if isinstance(one, EntityChange) and one.changes]
        check_size(changes)
        if changes and not body.validate_only:
            await configs.alter(changes)
        return plans

    try:
        plans = await request.services.config_writes.run(alter)
    except CONDITIONS as condition:
        return await request.aside(refuse, request, refusal_of(condition))
    entries = [
        _entry(request, entity, plan if isinstance(plan, Refusal) else None)
        async for entity, plan in gradually.each(plans.items())
    ]
    return _response(request, entries)


def refuse(request: Request, refusal: Refusal) -> Payload:
    """Answer each entity with the refusal."""
    entities = dict.fromkeys(_alteration(entry).entity for entry in request.decode().entries)
    return _response(request, [_entry(request, entity, refusal) for entity in entities])


def _entry(request: Request, entity: QuotaEntity, refusal: Refusal | None) -> object:
    return request.types.EntryData(
        error_code=refusal.code if refusal else ErrorCode.none,
        error_message=str(refusal) if refusal else None,
        entity=tuple(
            request.types.EntityData(entity_type=kind, entity_name=name)
            for kind, name in entity.parts
        ),
    )


def _response(request: Request, entries: Sequence[object]) -> Payload:
    response: Payload = request.types.AlterClientQuotasResponse(
        throttle_time=NOT_THROTTLED, entries=tuple(entries)
    )
    return response


def _alteration(entry: Any) -> QuotaAlteration:
    return QuotaAlteration(
        entity=QuotaEntity.of((part.entity_type, part.entity_name) for part in entry.entity),
        operations=[(each.key, None if each.remove else each.value) for each in entry.ops],
    )
