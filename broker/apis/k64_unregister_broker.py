"""UnregisterBroker: v0 (KIP-631). Forget a broker that stopped, before its day is over.

Its node id is free from then on. A live broker is refused: it says four times a second that it is
there, so there is nothing that could be taken from it.

ACLs: ALTER on the cluster.
"""

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.requests import NOT_THROTTLED, Request
from storage.metadata.brokers import BrokerLife

_ANSWERS: Final = {
    BrokerLife.DEAD: (ErrorCode.none, None),
    BrokerLife.LIVE: (ErrorCode.invalid_request, "Broker {} is alive; stop it first."),
    BrokerLife.UNKNOWN: (ErrorCode.broker_id_not_registered, "There is no broker {}."),
}


async def handle(request: Request) -> Payload:
    """Forget the broker, or say why not."""
    node_id = request.decode().broker_id
    code, message = _ANSWERS[await request.services.metadata.forget_broker(node_id)]
    response: Payload = request.types.UnregisterBrokerResponse(
        throttle_time=NOT_THROTTLED,
        error_code=code,
        error_message=message and message.format(node_id),
    )
    return response
