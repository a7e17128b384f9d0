"""AlterUserScramCredentials: v0 (KIP-554). Any broker does it; all know it within a second.

Each user answers for itself. The salted password that a client sends is not kept. More than 10,000
credentials are not changed: POLICY_VIOLATION.

ACLs: ALTER on the cluster.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.refusals import CONDITIONS, Refusal, refusal_of
from broker.requests import NOT_THROTTLED, Request
from broker.security.scram_requests import (
    ScramAlteration,
    ScramDeletion,
    ScramUpsertion,
    plan_alterations,
)
from storage.metadata.entity_configs import EntityChange, EntityKind


async def handle(request: Request) -> Payload:
    """Delete and set the credentials that can be."""
    alterations = await request.aside(_alterations, request.decode())
    return await request.aside(_response, request, await _alter(request, alterations))


def refuse(request: Request, refusal: Refusal) -> Payload:
    """Answer each user with the refusal."""
    users = [alteration.user for alteration in _alterations(request.decode())]
    return _response(request, dict.fromkeys(users, refusal))


def _response(request: Request, refusals: Mapping[str, Refusal | None]) -> Payload:
    types = request.types
    response: Payload = types.AlterUserScramCredentialsResponse(
        throttle_time=NOT_THROTTLED,
        results=tuple(
            types.AlterUserScramCredentialsResult(
                user=user,
                error_code=refusal.code if refusal else ErrorCode.none,
                error_message=str(refusal) if refusal else None,
            )
            for user, refusal in refusals.items()
        ),
    )
    return response


def _alterations(body: Any) -> list[ScramAlteration]:
    deletions = [
        ScramDeletion(user=deletion.name, mechanism=deletion.mechanism)
        for deletion in body.deletions
    ]
    upsertions = [
        ScramUpsertion(
            user=upsertion.name,
            mechanism=upsertion.mechanism,
            iterations=upsertion.iterations,
            salt=upsertion.salt,
            salted_password=upsertion.salted_password,
        )
        for upsertion in body.upsertions
    ]
    return [*deletions, *upsertions]


async def _alter(request: Request, alterations: list[ScramAlteration]) -> dict[str, Refusal | None]:
    """Do what can be done, all at once; return why not, by user."""
    configs = request.services.entity_configs

    async def alter() -> dict[str, EntityChange | Refusal]:
        await configs.refresh()  # a credential that another broker has just set can be deleted
        users = (alteration.user for alteration in alterations)
        stored = {user: configs.get(EntityKind.SCRAM, user) for user in users}
        plans = await request.aside(plan_alterations, alterations, stored.__getitem__)
        changes = [
            replace(plan, expected=stored[user])
            for user, plan in plans.items()
            if isinstance(plan, EntityChange)
        ]
        if changes:
            await configs.alter(changes)
        return plans

    try:
        plans = await request.services.config_writes.run(alter)
    except CONDITIONS as condition:
        refusal = refusal_of(condition)
        return {alteration.user: refusal for alteration in alterations}
    return {user: plan if isinstance(plan, Refusal) else None for user, plan in plans.items()}
