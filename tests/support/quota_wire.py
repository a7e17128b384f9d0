"""The requests about quotas, with plain values."""

from collections.abc import Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from tests.support.wire import WireClient, request_entities

DESCRIBE, ALTER = 48, 49
EXACT, DEFAULT, ANY = 0, 1, 2
Quotas = Mapping[str, float | None]
"""By key; None removes one."""

Parts = Sequence[tuple[str, str | None]]
"""Entity types and names; None for the default."""


async def alter(
    wire: WireClient, *entries: tuple[Parts, Quotas], check: bool = False, version: int = 1
) -> list[tuple[ErrorCode, str | None]]:
    module = request_entities(ALTER, version)
    request = module.AlterClientQuotasRequest(
        entries=tuple(
            module.EntryData(
                entity=tuple(
                    module.EntityData(entity_type=kind, entity_name=name) for kind, name in parts
                ),
                ops=tuple(
                    module.OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in quotas.items()
                ),
            )
            for parts, quotas in entries
        ),
        validate_only=check,
    )
    response = await wire.ask(request)
    return [(entry.error_code, entry.error_message) for entry in response.entries]


async def set_quotas(wire: WireClient, client_id: str, **quotas: float | None) -> None:
    assert await alter(wire, ([("client-id", client_id)], quotas)) == [(ErrorCode.none, None)]


async def describe(
    wire: WireClient,
    *components: tuple[str, int, str | None],
    strict: bool = False,
    version: int = 1,
) -> Any:
    module = request_entities(DESCRIBE, version)
    return await wire.ask(
        module.DescribeClientQuotasRequest(
            components=tuple(
                module.ComponentData(entity_type=kind, match_type=match, match=name)
                for kind, match, name in components
            ),
            strict=strict,
        )
    )


def shown(response: Any) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            quota.key: quota.value for quota in entry.values
        }
        for entry in response.entries
    }
