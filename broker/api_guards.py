"""What is done around the handlers of some APIs: a check before, a line in the audit log after."""

from collections.abc import Awaitable, Sequence

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.handlers import Handler, Later, Refuse
from broker.network.answer_when import Answer
from broker.refusals import Refusal
from broker.requests import DENIED_MESSAGE, Request
from broker.security.audit_changes import audit_changes
from protocol.acl import Operation, ResourceType


def on_cluster(handle: Handler, operation: Operation, refuse: Refuse | None) -> Handler:
    """Return a handler for those only who may do the operation on the cluster."""

    async def handle_allowed(request: Request) -> Payload | Answer | Later:
        if request.allows(operation, ResourceType.CLUSTER):
            return await handle(request)
        refusal = Refusal(ErrorCode.cluster_authorization_failed, DENIED_MESSAGE)
        if refuse is None:
            raise refusal
        return await request.aside(refuse, request, refusal)

    return handle_allowed


def audited(handle: Handler) -> Handler:
    """Return a handler that writes what it has changed to the audit log."""

    async def handle_audited(request: Request) -> Payload | Answer | Later:
        result = await handle(request)
        if isinstance(result, Awaitable):
            return _audited_later(request, result)
        return await _audited(request, result)

    return handle_audited


async def _audited_later(request: Request, later: Awaitable[Payload | Answer]) -> Payload | Answer:
    return await _audited(request, await later)


async def _audited(request: Request, result: Payload | Answer) -> Payload | Answer:
    if result is not None and not isinstance(result, bytes | Sequence):
        await audit_changes(request, result)
    return result
