"""A schema registry over HTTP: bounded requests, several addresses, and what to do while it fails.

It is one of Confluent's, or speaks its API as Karapace, Apicurio (/apis/ccompat/v7) and Redpanda
do. Used of it: GET /schemas/ids/{id}/versions and GET /schemas/ids/{id}, and the error code 404xx
in the body of a 404, without which it is no answer of a registry (a wrong path of the URL must not
make all records invalid).

While none can be reached one request at a time finds out whether it answers again, the others fail
at once: clients repeat what was refused, and each must not wait for a timeout. It may be a matter
of what was asked for, so another request goes first then. An answer that cannot be used says
nothing of others: only that request fails.
"""

import asyncio
import json
from collections.abc import Sequence
from typing import Final

import aiohttp
import structlog

from broker.schema_metrics import RegistryMetrics
from broker.secrets_config import RegistryLogin

MAX_REQUESTS: Final = 8
MAX_ANSWER_BYTES: Final = 2**20
RETRY_S: Final = 1.0
RETRY_SAME_S: Final = 3 * RETRY_S
"""For a request that was not answered in time: another one finds out sooner."""

LOG_S: Final = 60.0
"""Between two log lines of answers that cannot be used."""

_NOT_FOUND: Final = 404
_ERROR_CODES: Final = range(40_400, 40_500)  # 40403: no schema has that id
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"

log = structlog.get_logger()


class RegistryUnavailable(Exception):
    """No registry gave an answer that can be used; asking again later is safe."""


class _Unreachable(RegistryUnavailable):
    """None gave any answer."""


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
        self._urls = [url.rstrip("/") for url in urls]
        self._headers = {"Accept": _ACCEPT}
        if login.user:
            self._headers["Authorization"] = aiohttp.encode_basic_auth(login.user, login.password)
        self._timeout_s = timeout_s
        self._metrics = metrics
        self._places = asyncio.Semaphore(MAX_REQUESTS)
        self._session: aiohttp.ClientSession | None = None
        self._failure = "" if urls else "confluent.schema.registry.url is not set on this broker"
        self._failed_path = ""
        self._ask_again_s = float("-inf")
        self._log_again_s = float("-inf")
        self._asking_again = False

    async def get(self, path: str) -> object | None:
        """Return the JSON that answers GET `path`; None if all registries that answer know nothing.

        One that does not know it may lag behind the one that the producer has registered it with.

        Raises:
            RegistryUnavailable: none answered in time, or not as a registry does.
        """
        again = bool(self._failure)
        now_s = asyncio.get_running_loop().time()
        if again and (not self._urls or self._asking_again or now_s < self._may_ask_s(path)):
            raise RegistryUnavailable(self._failure)
        self._asking_again = again
        try:
            async with self._places:
                answer = await self._ask_each(path, again=again)
        except _Unreachable as unreachable:
            self._lost(path, str(unreachable))
            raise
        finally:
            if again:
                self._asking_again = False
        self._found_again()
        return answer

    def _may_ask_s(self, path: str) -> float:
        """Return when a request may find out whether a lost registry answers again."""
        same = path == self._failed_path
        return self._ask_again_s + (RETRY_SAME_S - RETRY_S if same else 0.0)

    def _lost(self, path: str, reason: str) -> None:
        self._ask_again_s = asyncio.get_running_loop().time() + RETRY_S
        self._failed_path = path
        if not self._failure:
            log.warning("schema registry does not answer", reason=reason)
        self._failure = reason

    def _unusable(self, reason: str) -> None:
        """Take note of an answer that helps nobody."""
        self._found_again()
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._log_again_s:
            self._log_again_s = now_s + LOG_S
            log.warning("schema registry answers what cannot be used", reason=reason)

    def _found_again(self) -> None:
        if self._failure and self._urls:  # none are left once it is closed
            log.info("schema registry answers again")
            self._failure = ""

    async def close(self) -> None:
        """End the connections; what is asked for from now on is refused."""
        self._urls, self._failure = [], "the broker is shutting down"
        if self._session is not None:
            await self._session.close()

    async def _ask_each(self, path: str, *, again: bool) -> object | None:
        if self._failure and not again:  # of one that had its place before
            raise RegistryUnavailable(self._failure)
        failures: list[str] = []
        reached = False
        for url in list(self._urls):
            try:
                answer = await self._ask(url + path)
            except _FAILURES as error:
                self._metrics.asked("failed")
                failures.append(f"{url}: {_reason(error)}")
                reached = reached or not isinstance(error, _UNREACHED)
                continue
            self._metrics.asked("unknown" if answer is None else "found")
            if answer is not None:
                if self._urls and self._urls[0] != url:
                    self._urls.sort(key=lambda one: one != url)
                return answer
        if failures and len(failures) >= len(self._urls):
            reason = "; ".join(failures)
            if not reached:
                raise _Unreachable(reason)
            self._unusable(reason)
            raise RegistryUnavailable(reason)
        return None

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
