"""Credentials of the standard chain, whose every failure is one of botocore's own errors.

A file that is not there yet, a program that prints no JSON, or a token that was renewed too late
comes out of the chain as whatever Python raised. Yet it is trouble outside this process, which
passes, or which somebody can mend while brokers wait for it.
"""

from typing import Any, Final

from aiobotocore.session import AioSession
from botocore.exceptions import CredentialRetrievalError

# What the chain raises besides botocore's own, for what files, programs and servers tell it.
_FAILURES: Final = (AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)


def tell_of_credentials(session: AioSession) -> None:
    """Have all that keeps a session from its credentials come as CredentialRetrievalError."""
    chain = session.get_component("credential_provider")
    session.register_component("credential_provider", _ToldChain(chain))


class _ToldChain:
    """Looks for credentials as botocore's own chain does."""

    def __init__(self, chain: Any) -> None:
        self._chain = chain

    async def load_credentials(self) -> "_ToldCredentials | None":
        try:
            found = await self._chain.load_credentials()
        except _FAILURES as error:
            raise _told("the standard chain", error) from error
        return None if found is None else _ToldCredentials(found)


class _ToldCredentials:
    """Credentials that may have to be renewed before a request is signed."""

    def __init__(self, found: Any) -> None:
        self._found = found

    async def get_frozen_credentials(self) -> Any:
        try:
            return await self._found.get_frozen_credentials()
        except _FAILURES as error:
            raise _told(self._found.method, error) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found, name)


def _told(provider: str, error: Exception) -> CredentialRetrievalError:
    return CredentialRetrievalError(provider=provider, error_msg=f"{type(error).__name__}: {error}")
