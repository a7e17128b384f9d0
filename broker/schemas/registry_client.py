"""A schema registry over HTTP: bounded requests, several addresses, and what to do while it fails.

It is one of Confluent's, or speaks its API as Karapace, Apicurio (/apis/ccompat/v7) and Redpanda
do. Used of it: GET /schemas/ids/{id}/versions and GET /schemas/ids/{id}, and the error code 404xx
in the body of a 404, without which it is no answer of a registry (a wrong path of the URL must not
make all records invalid).

Each registry has a circuit breaker, so that none is waited for by all while it fails.
"""

import asyncio
import json
from collections.abc import Iterable, Sequence
from typing import Final

import aiohttp

from broker.schemas.registry_breaker import RegistryBreaker
from broker.schemas.schema_metrics import RegistryMetrics
from broker.secrets_config import RegistryLogin

MAX_REQUESTS: Final = 8
MAX_ANSWER_BYTES: Final = 2**20

_NOT_FOUND: Final = 404
_ERROR_CODES: Final = range(40_400, 40_500)  # 40403: no schema has that id
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"


class RegistryUnavailable(Exception):
    """No registry gave an answer that can be used; asking again later is safe."""


class RegistryClient:
    """Asks the registries at `urls`, the one first that answered last.

    Args:
        timeout_s: of one request to one of them.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        login: RegistryLogin,
        timeout_s: float,
        metrics: RegistryMetrics,
    ) -> None:
        self._registries = [RegistryBreaker(url.rstrip("/")) for url in urls]
        self._nobody = "confluent.schema.registry.url is not set on this broker"
        self._headers = {"Accept": _ACCEPT}
        if login.user:
            self._headers["Authorization"] = aiohttp.encode_basic_auth(login.user, login.password)
        self._timeout_s = timeout_s
        self._metrics = metrics
        self._places = asyncio.Semaphore(MAX_REQUESTS)
        self._session: aiohttp.ClientSession | None = None

    async def get(self, path: str) -> object | None:
        """Return the JSON that answers GET `path`; None if all registries that answer know nothing.

        One that does not know it may lag behind the one that the producer has registered it with.

        Raises:
            RegistryUnavailable: none answered in time, or not as a registry does.
        """
        if not any(one.may_ask(path) for one in self._registries):  # nor wait for a place
            raise self._unavailable(one.failure for one in self._registries)
        async with self._places:
            return await self._ask_each(path)

    async def close(self) -> None:
        """End the connections; what is asked for from now on is refused."""
        self._registries, self._nobody = [], "the broker is shutting down"
        if self._session is not None:
            await self._session.close()

    async def _ask_each(self, path: str) -> object | None:
        failures: list[str] = []
        for one in list(self._registries):
            try:
                answer = await self._ask_one(one, path)
            except RegistryUnavailable as unavailable:
                failures.append(str(unavailable))
                continue
            if answer is not None:
                self._registries.sort(key=lambda other: other is not one)
                return answer
        if len(failures) >= len(self._registries):  # none are left once it is closed
            raise self._unavailable(failures)
        return None

    def _unavailable(self, failures: Iterable[str]) -> RegistryUnavailable:
        return RegistryUnavailable("; ".join(failures) or self._nobody)

    async def _ask_one(self, registry: RegistryBreaker, path: str) -> object | None:
        if not registry.may_ask(path):
            raise RegistryUnavailable(registry.failure)
        with registry.asking():
            try:
                answer = await self._ask(registry.url + path)
            except _FAILURES as error:
                self._metrics.asked("failed")
                reason = f"{registry.url}: {_reason(error)}"
                registry.failed(path, reason, unreached=isinstance(error, _UNREACHED))
                raise RegistryUnavailable(reason) from error
        registry.answered(path)
        self._metrics.asked("unknown" if answer is None else "found")
        return answer

    async def _ask(self, url: str) -> object | None:
        """Return a registry's answer, None if it has nothing there.

        Raises:
            Exception: one of _FAILURES: it is no answer.
        """
        if self._session is None:
            self._session = aiohttp.ClientSession(headers=self._headers)
        request = self._session.get(url, allow_redirects=False)
        async with asyncio.timeout(self._timeout_s), request as response:
            body = await response.content.read(MAX_ANSWER_BYTES + 1)
            while len(body) <= MAX_ANSWER_BYTES and (more := await response.content.readany()):
                body += more
        if len(body) > MAX_ANSWER_BYTES:
            raise RegistryUnavailable(f"an answer of more than {MAX_ANSWER_BYTES} bytes")
        if response.status == _NOT_FOUND:
            answer = json.loads(body)
            if isinstance(answer, dict) and answer.get("error_code") in _ERROR_CODES:
                return None
        if response.status != 200:
            raise RegistryUnavailable(f"HTTP status {response.status}")
        return _not_null(json.loads(body))


_FAILURES: Final = (
    aiohttp.ClientError,
    TimeoutError,
    ValueError,
    RecursionError,  # JSON nested without end
    RegistryUnavailable,
)


_UNREACHED: Final = (aiohttp.ClientConnectionError, TimeoutError)


def _not_null(answer: object) -> object:
    if answer is None:
        raise RegistryUnavailable("null is no answer")
    return answer


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ValueError | RecursionError):
        return "its answer is not JSON"
    return str(error) or type(error).__name__
