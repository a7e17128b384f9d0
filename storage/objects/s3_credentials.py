"""Credentials of the standard chain, whose every failure is one of botocore's own errors.

A file that is not there yet, a program that prints no JSON, or a token that was renewed too late
comes out of the chain as whatever Python raised. Yet it is trouble outside this process, which
passes, or which somebody can mend while brokers wait for it. So is a program that hangs: all
requests wait for the same renewal, each no longer than a try lasts, and are told what they wait
for. Who began it anew with each try would start a program each time, and none would be ended.
"""

import asyncio
from asyncio.subprocess import Process
from contextlib import suppress
from typing import Any, Final

from aiobotocore.credentials import AioProcessProvider
from aiobotocore.session import AioSession
from botocore.exceptions import CredentialRetrievalError

# What the chain raises besides botocore's own, for what files, programs and servers tell it.
_FAILURES: Final = (AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)

WAIT_S: Final = 1.5  # less than the first try of a request (s3_tries.py), which has to tell of it
RENEWAL_S: Final = 60.0
"""Then a renewal, or the first question, is given up, and its program ended."""

_MANDATORY_S: Final = 10 * 60
"""Credentials that are good for longer are used while they are renewed, as botocore does it."""


def tell_of_credentials(session: AioSession) -> None:
    """Have all that keeps a session from its credentials come as CredentialRetrievalError."""
    chain = session.get_component("credential_provider")
    programs = AioProcessProvider(
        profile_name=session.get_config_variable("profile") or "default",
        load_config=lambda: session.full_config,
        popen=_start,
    )
    chain.insert_before(programs.METHOD, programs)  # the chain's own ends no program
    session.register_component("credential_provider", _ToldChain(chain))


class _ToldChain:
    """Looks for credentials as botocore's own chain does."""

    def __init__(self, chain: Any) -> None:
        self._chain = chain

    async def load_credentials(self) -> "_ToldCredentials | None":
        try:
            async with asyncio.timeout(RENEWAL_S):
                found = await self._chain.load_credentials()
        except _FAILURES as error:
            raise _told("the standard chain", error) from error
        return None if found is None else _ToldCredentials(found)


class _ToldCredentials:
    """Credentials that may have to be renewed before a request is signed."""

    def __init__(self, found: Any) -> None:
        self._found = found
        self._renewal: asyncio.Task[Any] | None = None

    async def get_frozen_credentials(self) -> Any:
        is_due = getattr(self._found, "refresh_needed", None)  # some are good for ever
        if is_due is None or not is_due():
            return await self._found.get_frozen_credentials()
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._renew())
            self._renewal.add_done_callback(_hear)
        renewal, is_mandatory = self._renewal, is_due(_MANDATORY_S)
        await asyncio.wait((renewal,), timeout=WAIT_S if is_mandatory else 0)
        if renewal.done():
            return renewal.result()
        if is_mandatory:
            told = f"no answer yet, which is waited for up to {RENEWAL_S:g} s"
            raise CredentialRetrievalError(provider=self._found.method, error_msg=told)
        return await self._found.get_frozen_credentials()  # of before: a renewal is under way

    async def _renew(self) -> Any:
        try:
            async with asyncio.timeout(RENEWAL_S):
                return await self._found.get_frozen_credentials()
        except _FAILURES as error:
            raise _told(self._found.method, error) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found, name)


def _told(provider: str, error: Exception) -> CredentialRetrievalError:
    return CredentialRetrievalError(provider=provider, error_msg=f"{type(error).__name__}: {error}")


def _hear(renewal: "asyncio.Task[Any]") -> None:
    if not renewal.cancelled():
        renewal.exception()  # perhaps nobody waits


class _Program:
    """A program that tells credentials, and ends with who waits for it."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    async def communicate(self) -> tuple[bytes, bytes]:
        try:
            return await self._process.communicate()
        finally:
            if self._process.returncode is None:
                with suppress(ProcessLookupError):
                    self._process.kill()


async def _start(*command: str, stdout: int, stderr: int) -> _Program:
    return _Program(await asyncio.create_subprocess_exec(*command, stdout=stdout, stderr=stderr))
