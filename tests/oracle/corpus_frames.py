"""Frames that are no proper requests, for every API; and the edges of proper ones."""

import struct
from typing import Final

from tests.oracle.wire_cases import Bytes, Case, Step, ask, case

PRODUCE: Final = 0
METADATA: Final = 3
API_VERSIONS: Final = 18

API_KEYS: Final = (
    *(0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28),
    *(29, 30, 31, 32, 33, 34, 35, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51),
    *(55, 57, 60, 61, 64, 65, 66, 68, 69, 74, 75),
)
REMOVED: Final = {0: 2, 1: 3, 2: 0, 8: 1, 9: 0, 19: 1, 20: 0, 23: 1, 27: 0, 29: 0, 32: 0, 35: 0}
"""The latest versions that went with Kafka 4.0 (KIP-896), of some APIs."""

LONGEST_CLIENT_ID: Final = 32_767


def _header(
    api_key: int, version: int, client_id: bytes = b"test", client_id_length: int | None = None
) -> bytes:
    length = len(client_id) if client_id_length is None else client_id_length
    return struct.pack(">hhih", api_key, version, 1, length) + client_id


def _cut_short(api_key: int) -> Case:
    """A request whose last byte is missing; its size tells the truth."""
    return case(api_key, "frame: cut short", ask(api_key, change=lambda content: content[:-1]))


def _to_come(api_key: int) -> Case:
    name = "frame: a version to come"
    return case(api_key, name, Bytes(content=_header(api_key, 99) + b"\0"), versions=(0,))


def _removed(api_key: int, version: int) -> Case:
    name = "frame: a version that is gone"
    content = _header(api_key, version) + b"\0" * 8
    return case(api_key, name, Bytes(content=content), versions=(0,))


def _metadata(name: str, *steps: Step) -> Case:
    return case(METADATA, f"frame: {name}", *steps, versions=(12,))


def _empty_metadata(header: bytes) -> Bytes:
    """Ask for no topics in v1, which has nothing but an array."""
    return Bytes(content=header + struct.pack(">i", 0))


SIZE_CASES: Final = (
    _metadata("a negative size", Bytes(content=b"", size=-1)),
    _metadata("no size", Bytes(content=b"", size=0)),
    _metadata("the largest size", Bytes(content=b"", size=(1 << 31) - 1)),
    _metadata("less than a header", Bytes(content=b"\0\3")),
    _metadata("a header alone", Bytes(content=_header(METADATA, 1))),
    _metadata(
        "an array longer than the frame",
        Bytes(content=_header(METADATA, 1) + struct.pack(">i", 1_000_000_000)),
    ),
    _metadata("a negative array", Bytes(content=_header(METADATA, 1) + struct.pack(">i", -2))),
    _metadata(
        "bytes after the request",
        ask(METADATA, topics=[], change=lambda content: content + b"more"),
    ),
    _metadata(
        "a string longer than the frame",
        Bytes(content=_header(METADATA, 1) + struct.pack(">ih", 1, 500) + b"abc"),
    ),
    _metadata(
        "a string that is no text",
        Bytes(content=_header(METADATA, 1) + struct.pack(">ih", 1, 2) + b"\xff\xfe"),
    ),
)

HEADER_CASES: Final = (
    _metadata("an unknown API", Bytes(content=_header(999, 0))),
    _metadata("a negative API", Bytes(content=_header(-1, 0))),
    _metadata("a negative version", Bytes(content=_header(METADATA, -1))),
    _metadata(
        "an API of brokers",
        Bytes(content=_header(4, 0)),
        Bytes(content=_header(56, 0)),
        Bytes(content=_header(62, 0)),
    ),
    _metadata("no client id", _empty_metadata(_header(METADATA, 1, b"", -1))),
    _metadata("an empty client id", _empty_metadata(_header(METADATA, 1, b""))),
    _metadata(
        "the longest client id", _empty_metadata(_header(METADATA, 1, b"x" * LONGEST_CLIENT_ID))
    ),
    _metadata(
        "a client id longer than the frame", Bytes(content=_header(METADATA, 1, b"abc", 30_000))
    ),
    _metadata("a client id of negative length", Bytes(content=_header(METADATA, 1, b"abc", -2))),
    _metadata(
        "a client id that is no text", _empty_metadata(_header(METADATA, 1, b"\xff\xfe\xfd"))
    ),
    _metadata("a client id with spaces", _empty_metadata(_header(METADATA, 1, b"a b\n"))),
)

TAG_CASES: Final = (
    _metadata(
        "an unknown tagged field",
        ask(METADATA, topics=[], change=lambda content: content[:-1] + b"\x01\x63\x01x"),
    ),
    _metadata(
        "a tagged field longer than the frame",
        ask(METADATA, topics=[], change=lambda content: content[:-1] + b"\x01\x63\x40x"),
    ),
    _metadata(
        "an unknown tagged field of the header",
        ask(
            METADATA,
            topics=[],
            change=lambda content: content[:14] + b"\x01\x63\x01x" + content[15:],
        ),
    ),
    _metadata(
        "more tagged fields than there are",
        ask(METADATA, topics=[], change=lambda content: content[:-1] + b"\x05"),
    ),
    _metadata(
        "a number without an end", Bytes(content=_header(METADATA, 12) + b"\0" + b"\xff" * 12)
    ),
)

VERSION_CASES: Final = (
    case(
        API_VERSIONS,
        "frame: after a version to come",
        Bytes(content=_header(API_VERSIONS, 99) + b"\0garbage"),
        ask(METADATA, topics=[]),
        versions=(3,),
    ),
    case(
        API_VERSIONS,
        "frame: a negative version",
        Bytes(content=_header(API_VERSIONS, -1)),
        versions=(3,),
    ),
    case(
        PRODUCE, "frame: without a header's end", Bytes(content=_header(PRODUCE, 9)), versions=(9,)
    ),
)

CASES: Final = (
    *(_cut_short(api_key) for api_key in API_KEYS),
    *(_to_come(api_key) for api_key in API_KEYS),
    *(_removed(api_key, version) for api_key, version in REMOVED.items()),
    *SIZE_CASES,
    *HEADER_CASES,
    *TAG_CASES,
    *VERSION_CASES,
)
