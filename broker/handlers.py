"""What answers a request, and what it may hand back."""

from collections.abc import Awaitable, Callable

from kio.static.protocol import Payload

from broker.network.answer_when import Answer
from broker.refusals import Refusal
from broker.requests import Request

Later = Awaitable[Payload | Answer]
"""For what may take long: the connection's next requests begin meanwhile."""

Handler = Callable[[Request], Awaitable[Payload | Answer | Later]]

Refuse = Callable[[Request, Refusal], Payload]
"""Returns the answer to a request that is refused as a whole, in an API whose answers tell that of
each thing that the request names, or in another way of their own."""
