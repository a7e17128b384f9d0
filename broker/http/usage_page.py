"""GET /usage?since_ms=&until_ms=&by=&limit=: what is asked of the object store, and by whom.

    {"since_ms": …, "until_ms": …, "now_ms": …, "by": "topic",
     "usage": [{"key": "orders", "first_hour_ms": …, "puts": 12.5, "put_bytes": …, "gets": …,
                "get_bytes": …, "lists": …, "deletes": …, "produced_bytes": …, "fetched_bytes": …}],
     "stored": {"topics": {"orders": …}, "total": …}}

Whole hours are added up: all that began in [since_ms, until_ms). What this broker has counted is in
it; what others have counted in the last half minute may not be. `stored` is null where Postgres has
no answer to that in time: it has to look at all of the index.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from aiohttp import web

from storage.errors import MetadataUnavailable
from storage.metadata.usage import HOUR_MS, UsageBy, UsageStore, UsageTotal, hour_of
from storage.usage_counter import UsageCounter

DEFAULT_PERIOD_MS: Final = 7 * 24 * HOUR_MS
DEFAULT_LIMIT: Final = 1000
MAX_LIMIT: Final = 10_000
MAX_MS: Final = 2**52  # milliseconds that Postgres has a date for


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuestion:
    """What is asked of /usage; see UsageStore.usage."""

    since_ms: int
    until_ms: int
    by: UsageBy
    limit: int


class UsagePage:
    """Answers GET /usage; one at a time, because a look at the whole index is no small thing."""

    def __init__(
        self, store: UsageStore, counter: UsageCounter, *, now_ms: Callable[[], int]
    ) -> None:
        self._store = store
        self._counter = counter
        self._now_ms = now_ms
        self._turn = asyncio.Lock()

    async def answer(self, request: web.Request) -> web.Response:
        """Return usage; 400 if it is not clear what is asked, 503 while Postgres is away."""
        try:
            question = read_question(request.query, self._now_ms())
        except ValueError as error:
            return web.json_response({"error": str(error)}, status=400)
        try:
            async with self._turn:
                body = await self._body(question)
        except MetadataUnavailable as error:
            reason = f"the metadata database does not answer: {error}"
            return web.json_response({"error": reason}, status=503)
        return web.json_response(body)

    async def _body(self, question: UsageQuestion) -> dict[str, object]:
        await self._counter.flush()
        since_ms, until_ms, by = question.since_ms, question.until_ms, question.by
        totals = await self._store.usage(since_ms, until_ms, by, limit=question.limit)
        return {
            "since_ms": since_ms,
            "until_ms": until_ms,
            "now_ms": self._now_ms(),
            "by": by.value,
            "usage": [_line(total) for total in totals],
            "stored": await self._stored(),
        }

    async def _stored(self) -> dict[str, object] | None:
        try:
            stored = await self._store.stored_bytes()
        except MetadataUnavailable:
            return None
        return {"topics": dict(stored.topics), "total": stored.total}


def read_question(query: Mapping[str, str], now_ms: int) -> UsageQuestion:
    """Return what the query of a URL asks for; a week by topic, if it says nothing.

    Raises:
        ValueError: a value makes no sense; the message names it.
    """
    unknown = sorted(query.keys() - {"since_ms", "until_ms", "by", "limit"})
    if unknown:
        raise ValueError(f"unknown parameter {unknown[0]}: use since_ms, until_ms, by, limit")
    since_ms = _number(query, "since_ms", max(now_ms - DEFAULT_PERIOD_MS, 0), most=MAX_MS)
    by = query.get("by", UsageBy.TOPIC.value)
    if by not in {one.value for one in UsageBy}:
        raise ValueError(f"by is topic, client or day, not {json.dumps(by)}")
    return UsageQuestion(
        since_ms=hour_of(since_ms),  # the hour that it lies in has begun before
        until_ms=_number(query, "until_ms", now_ms + HOUR_MS, most=MAX_MS),
        by=UsageBy(by),
        limit=_number(query, "limit", DEFAULT_LIMIT, most=MAX_LIMIT),
    )


def _number(query: Mapping[str, str], name: str, default: int, *, most: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal()) or len(text) > 16 or int(text) > most:
        raise ValueError(f"{name} is a number from 0 to {most}, not {json.dumps(text)}")
    return int(text)


def _line(total: UsageTotal) -> dict[str, object]:
    return {"key": total.key, "first_hour_ms": total.first_hour_ms, **asdict(total.counts)}
