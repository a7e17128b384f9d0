"""What AlterClientQuotas comes to: for each entity its change, or why there is none (KIP-546)."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from broker.gradual import Gradually
from broker.quotas.quota_entities import QuotaEntity, check_entity, check_quota
from broker.refusals import Refusal
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaAlteration:
    """One entry of the request.

    Attributes:
        operations: (key, value; None removes the quota).
    """

    entity: QuotaEntity
    operations: Sequence[tuple[str, float | None]]


async def plan_quotas(
    alterations: Sequence[QuotaAlteration], stored: Callable[[str], Mapping[str, str]]
) -> Mapping[QuotaEntity, EntityChange | Refusal]:
    """Return what to do for each entity, in the order of the request; one error spoils its entry.

    As in Kafka, what is so already is no change. An entity or a key that comes twice is refused,
    and nothing of it is done: which of them was meant is not known.

    Args:
        alterations: the entries of the request.
        stored: returns what is set of an entity, by its name in the store.
    """
    times = Counter(each.entity for each in alterations)
    plans: dict[QuotaEntity, EntityChange | Refusal] = {}
    async for alteration in Gradually().each(alterations):
        try:
            if times[alteration.entity] > 1:
                raise _refuse_repeated(alteration.entity)
            plans[alteration.entity] = _change(alteration, stored(alteration.entity.text))
        except Refusal as refusal:
            # without its frames, which have the plans, and it
            plans[alteration.entity] = refusal.with_traceback(None)
    return plans


def _change(alteration: QuotaAlteration, stored: Mapping[str, str]) -> EntityChange:
    entity = alteration.entity
    check_entity(entity)
    if len(dict(alteration.operations)) < len(alteration.operations):
        raise _refuse_repeated(entity)
    changes: dict[str, str | None] = {}
    for key, value in alteration.operations:
        if value is not None:
            check_quota(entity, key, value)
        text = None if value is None else repr(value)
        if text != stored.get(key):
            changes[key] = text
    # the values of one request, not those of two that were made at once
    return EntityChange(
        entity=Entity(EntityKind.CLIENT_QUOTA, entity.text), changes=changes, expected=dict(stored)
    )


def _refuse_repeated(entity: QuotaEntity) -> Refusal:
    return Refusal(ErrorCode.invalid_request, f"Something of {entity.text} is altered twice")
