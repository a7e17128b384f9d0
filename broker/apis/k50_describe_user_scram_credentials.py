"""DescribeUserScramCredentials: v0 (KIP-554). No users is all users, as null is.

ACLs: DESCRIBE on the cluster.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.gradual import Gradually
from broker.refusals import Refusal
from broker.requests import NOT_THROTTLED, Request
from broker.security.scram_requests import credentials_of
from storage.metadata.entity_configs import EntityKind


async def handle(request: Request) -> Payload:
    """Tell mechanisms and iterations of the users asked for; each answers for itself."""
    body, configs = request.decode(), request.services.entity_configs
    await configs.refresh()  # what another broker has just answered for is seen here, too
    counts = Counter(user.name for user in body.users or ())
    # Both before others have a turn: who is deleted meanwhile was not asked for by name.
    users = counts or dict.fromkeys(sorted(filter(None, configs.all(EntityKind.SCRAM))), 1)
    stored = {user: configs.get(EntityKind.SCRAM, user) for user in users}
    answers = (_answer(request, user, count, stored[user]) for user, count in users.items())
    response: Payload = request.types.DescribeUserScramCredentialsResponse(
        throttle_time=NOT_THROTTLED,
        error_code=ErrorCode.none,
        error_message=None,
        results=await Gradually().made(answers),
    )
    return response


def _answer(request: Request, user: str, count: int, stored: Mapping[str, str]) -> object:
    try:
        return _result(request, user, ErrorCode.none, None, _infos(request, user, count, stored))
    except Refusal as refusal:
        return _result(request, user, refusal.code, str(refusal), ())


def _infos(
    request: Request, user: str, count: int, stored: Mapping[str, str]
) -> tuple[object, ...]:
    if count > 1:
        raise Refusal(ErrorCode.duplicate_resource, f"The request names user {user} twice.")
    credentials = credentials_of(stored)
    if not credentials:
        raise Refusal(ErrorCode.resource_not_found, f"User {user} has no SCRAM credential.")
    return tuple(
        request.types.CredentialInfo(mechanism=int(mechanism), iterations=credential.iterations)
        for mechanism, credential in credentials.items()
    )


def _result(
    request: Request, user: str, code: ErrorCode, message: str | None, infos: tuple[object, ...]
) -> Any:
    return request.types.DescribeUserScramCredentialsResult(
        user=user, error_code=code, error_message=message, credential_infos=infos
    )
