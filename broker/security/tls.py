"""The TLS of a broker while it runs: the files are read again when they change.

Connections that are open keep what they were made with; new ones get what is in force. Files that
cannot be used, for they are half written perhaps, leave in force what was, and are told of once.
"""

import asyncio
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import structlog

from broker.network.listeners import SecurityProtocol
from broker.security.file_signature import FileSignature, file_signature
from broker.security.principal_mapping import PrincipalMapping
from broker.security.security_config import SecurityConfig
from broker.security.tls_contexts import TlsProblems, make_contexts

LOOK_S: Final = 1.0
SOON: Final = timedelta(days=14)

log = structlog.get_logger()


class Tls:
    """What the listeners with TLS have in common.

    Raises:
        TlsProblems: the files cannot be used.
    """

    def __init__(self, config: SecurityConfig, key_password: str) -> None:
        self._config = config
        self._key_password = key_password
        self._mapping = PrincipalMapping(config.principal_mapping_rules)
        self._seen = self._signature()
        self._contexts = make_contexts(config, key_password)
        self._tell()

    def context_of(self, protocol: SecurityProtocol) -> Callable[[], ssl.SSLContext]:
        """Return what returns the context in force for a listener."""
        return lambda: self._contexts.of(protocol)

    def name_of(self, subject: str) -> str:
        """Return the user's name for the subject of a certificate.

        Raises:
            NoRuleApplies: none of ssl.principal.mapping.rules does.
        """
        return self._mapping.name(subject)

    def expires_s(self) -> float:
        """Return when the broker's certificate expires, in seconds since the epoch."""
        return self._contexts.expires.timestamp()

    async def follow(self) -> None:
        """Look at the files about once a second, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            await asyncio.to_thread(self.refresh)  # a file system may take its time

    def refresh(self) -> None:
        """Read the files again if they have changed."""
        signature = self._signature()
        if signature == self._seen:
            return
        contexts, problem = self._contexts, ""
        try:
            contexts = make_contexts(self._config, self._key_password)
        except (TlsProblems, OSError) as error:
            problem = str(error)
        if self._signature() != signature:
            return  # changed while it was read: look again
        self._seen, self._contexts = signature, contexts
        if problem:
            log.warning("certificates not taken over", reason=problem, in_force=self._in_force())
        else:
            self._tell()

    def _tell(self) -> None:
        contexts = self._contexts
        log.info("certificates in force", **self._in_force())
        if contexts.expires < datetime.now(UTC) + SOON:
            log.warning("certificate expires soon, or has", **self._in_force())

    def _in_force(self) -> dict[str, str]:
        return {"subject": self._contexts.subject, "expires": self._contexts.expires.isoformat()}

    def _signature(self) -> tuple[FileSignature | None, ...]:
        files = (self._config.keystore, self._config.truststore)
        return tuple(file_signature(Path(file)) for file in files if file)
