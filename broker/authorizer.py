"""Who may do what: everybody everything, as no authorizer is configured. There are no ACLs."""

from kio.schema.errors import ErrorCode

from broker.refusals import Refusal
from protocol.errors import MalformedRequest


def no_authorizer() -> Refusal:
    """Return what the ACL APIs answer."""
    return Refusal(ErrorCode.security_disabled, "No authorizer is configured.")


def check_known(*numbers: int) -> None:
    """Check the numbers that tell the kinds of a request's ACL.

    Raises:
        MalformedRequest: 0 stands for what a client has read and not understood; nobody may ask it.
    """
    if 0 in numbers:
        raise MalformedRequest("an ACL has an unknown element")
