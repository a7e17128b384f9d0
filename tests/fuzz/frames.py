"""Request frames as a connection sends them: which API, which version, and what is wrong."""

import struct
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Final

from broker.api_table import APIS, is_supported
from protocol.codec import request_type
from tests.fuzz.grammar import Draft, entity_maker
from tests.fuzz.mutations import mutate
from tests.fuzz.values import pick

CLEAN_SHARE: Final = 0.3
_FIXED: Final = struct.Struct(">hhi")
_SIZE: Final = struct.Struct(">i")
_CLIENT_IDS: Final = (
    *(b"\xff\xff", b"\0\0", b"\0\x04fuzz", b"\0\x04fuzz", b"\0\x02\xff\xfe", b"\0\x03a\nb"),
    *(b"\x01\x2c" + b"x" * 300, b"\x7f\xff", b"\xff\xfe"),
)


@dataclass(frozen=True, slots=True)
class Sent:
    """One frame.

    Attributes:
        data: with its size; the size may be wrong.
        api_key, version: that it was made for.
    """

    data: bytes
    api_key: int
    version: int


@cache
def advertised() -> tuple[tuple[int, int], ...]:
    """Return every (API key, version) that the broker answers, keys with few versions as often."""
    by_key = {
        key: [version for version in range(api.low, api.high + 1) if is_supported(key, version)]
        for key, api in APIS.items()
    }
    most = max(map(len, by_key.values()))
    return tuple(
        (key, versions[turn % len(versions)])
        for key, versions in sorted(by_key.items())
        for turn in range(most)
    )


def some_frame(random: Random, *, clean_share: float = CLEAN_SHARE) -> Sent:
    """Return a request of any API, well-formed or damaged."""
    api_key, version = pick(random, advertised())
    return frame_of(random, api_key, version, clean=random.random() < clean_share)


def frame_of(random: Random, api_key: int, version: int, *, clean: bool) -> Sent:
    """Return a request of that API and version."""
    kind = request_type(api_key, version)
    draft = Draft(random)
    draft.out += _FIXED.pack(api_key, version, int(random.random() * 2**31))
    draft.out += pick(random, _CLIENT_IDS[:5] if clean else _CLIENT_IDS)
    if kind.__flexible__:
        draft.mark(b"\0")
    entity_maker(kind)(draft)
    body = draft.out
    if not clean:
        mutate(random, body, draft.marks)
    size = len(body)
    if not clean and random.random() < 0.02:
        size += pick(random, (-1, 1, 4, 70_000, 2**30))
    return Sent(_SIZE.pack(size) + body, api_key, version)
