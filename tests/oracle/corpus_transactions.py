"""Transactions begin: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn."""

from typing import Any, Final

from tests.oracle.wire_cases import Common, Step, ask, case, given, topic
from tests.oracle.wire_values import MADE_UP_ID, NULL, Saved

INIT_PRODUCER_ID: Final = 22
ADD_PARTITIONS: Final = 24
ADD_OFFSETS: Final = 25
ID, EPOCH = Saved("id"), Saved("epoch")
IDENTITY: Final[dict[str, Any]] = {
    "transactional_id": "x-~",
    "producer_id": ID,
    "producer_epoch": EPOCH,
}
STRANGER: Final[dict[str, Any]] = {
    "transactional_id": "x-~",
    "producer_id": MADE_UP_ID,
    "producer_epoch": 0,
}
NEXT: Final = {"id": "producer_id", "epoch": "producer_epoch"}


def _init(**said: Any) -> Step:
    fields = {"transactional_id": "x-~", "transaction_timeout": 60_000}
    return ask(INIT_PRODUCER_ID, **{**fields, **said})


INITIALIZED: Final = given(
    INIT_PRODUCER_ID, save=NEXT, transactional_id="x-~", transaction_timeout=60_000
)


WRITTEN_TO: Final = Common(name="transactions", steps=topic(partitions=2))
"""A topic t-~ whose records nobody reads."""


READY: Final = (WRITTEN_TO, INITIALIZED)


INIT_CASES: Final = (
    case(INIT_PRODUCER_ID, "without transactions", _init(transactional_id=None)),
    case(INIT_PRODUCER_ID, "with transactions", _init(), _init()),
    case(INIT_PRODUCER_ID, "an empty transactional id", _init(transactional_id="")),
    case(INIT_PRODUCER_ID, "no time", _init(transaction_timeout=0)),
    case(INIT_PRODUCER_ID, "negative time", _init(transaction_timeout=-1)),
    case(INIT_PRODUCER_ID, "too much time", _init(transaction_timeout=1_000_000_000)),
    case(
        INIT_PRODUCER_ID,
        "no time without transactions",
        _init(transactional_id=None, transaction_timeout=0),
    ),
    case(
        INIT_PRODUCER_ID,
        "with its own epoch",
        INITIALIZED,
        _init(producer_id=ID, producer_epoch=EPOCH, save=NEXT),
        _init(producer_id=ID, producer_epoch=EPOCH),
        versions=(3, 5),
    ),
    case(
        INIT_PRODUCER_ID,
        "with another epoch",
        INITIALIZED,
        _init(producer_id=ID, producer_epoch=7),
        versions=(3, 5),
    ),
    case(
        INIT_PRODUCER_ID,
        "fenced by another",
        INITIALIZED,
        given(INIT_PRODUCER_ID, transactional_id="x-~", transaction_timeout=60_000),
        given(INIT_PRODUCER_ID, transactional_id="x-~", transaction_timeout=60_000),
        _init(producer_id=ID, producer_epoch=EPOCH),
        versions=(3, 5),
    ),
    case(
        INIT_PRODUCER_ID,
        "with another id",
        INITIALIZED,
        _init(producer_id=MADE_UP_ID, producer_epoch=0),
        versions=(3, 5),
    ),
    case(
        INIT_PRODUCER_ID,
        "an id without an epoch",
        _init(producer_id=MADE_UP_ID, producer_epoch=-1),
        _init(producer_id=-1, producer_epoch=0),
        versions=(3, 5),
    ),
    case(
        INIT_PRODUCER_ID,
        "an id that nobody gave out",
        _init(producer_id=MADE_UP_ID, producer_epoch=0),
        versions=(3, 5),
    ),
    case(
        INIT_PRODUCER_ID,
        "an epoch without transactions",
        _init(transactional_id=None, producer_id=MADE_UP_ID, producer_epoch=3),
        versions=(3, 5),
    ),
)


def adding(*partitions: int, name: str = "t-~", **said: Any) -> dict[str, Any]:
    """Return the same for versions of clients, with one transaction, and of brokers, with many."""
    topics = [{"name": name, "partitions": partitions}]
    identity = IDENTITY | said
    one = {"verify_only": False, "topics": topics} | identity
    return {
        "transactions": [one],
        "v3_and_below_topics": topics,
        **{f"v3_and_below_{key}": value for key, value in identity.items() if key != "verify_only"},
    }


def _add(*partitions: int, **said: Any) -> Step:
    return ask(ADD_PARTITIONS, **adding(*partitions, **said))


ADD_CASES: Final = (
    case(ADD_PARTITIONS, "partitions", READY, _add(0, 1), _add(0)),
    case(ADD_PARTITIONS, "known and unknown partitions", READY, _add(0, 9, -1)),
    case(ADD_PARTITIONS, "an unknown topic", READY, _add(0, name="no-~")),
    case(ADD_PARTITIONS, "no partitions", READY, _add()),
    case(ADD_PARTITIONS, "the same partition twice", READY, _add(0, 0)),
    case(ADD_PARTITIONS, "an unknown transactional id", WRITTEN_TO, _add(0, **STRANGER)),
    case(ADD_PARTITIONS, "another producer id", READY, _add(0, producer_id=MADE_UP_ID)),
    case(
        ADD_PARTITIONS,
        "another epoch",
        READY,
        _add(0, producer_epoch=9),
        _add(0, producer_epoch=-1),
    ),
    case(ADD_PARTITIONS, "no transactional id", READY, _add(0, transactional_id="")),
    case(
        ADD_PARTITIONS,
        "no topics",
        READY,
        ask(
            ADD_PARTITIONS,
            transactions=[IDENTITY],
            **{f"v3_and_below_{k}": v for k, v in IDENTITY.items()},
        ),
    ),
    case(
        ADD_PARTITIONS,
        "only a check",
        READY,
        _add(0, verify_only=True),
        _add(0),
        _add(0, 1, verify_only=True),
        versions=(4, 5),
    ),
    case(
        ADD_PARTITIONS,
        "several transactions",
        READY,
        ask(
            ADD_PARTITIONS,
            transactions=[
                *adding(0)["transactions"],
                *adding(0, **{**STRANGER, "transactional_id": "y-~"})["transactions"],
            ],
        ),
        versions=(4, 5),
    ),
    case(
        ADD_PARTITIONS, "null transactions", ask(ADD_PARTITIONS, transactions=NULL), versions=(4, 5)
    ),
    case(
        ADD_PARTITIONS,
        "null topics",
        ask(ADD_PARTITIONS, v3_and_below_topics=NULL),
        versions=(0, 3),
    ),
)


def _add_offsets(**said: Any) -> Step:
    return ask(ADD_OFFSETS, **{**IDENTITY, "group_id": "g-~", **said})


ADD_OFFSETS_CASES: Final = (
    case(ADD_OFFSETS, "a group", READY, _add_offsets(), _add_offsets()),
    case(ADD_OFFSETS, "an unknown transactional id", _add_offsets(**STRANGER)),
    case(ADD_OFFSETS, "another producer id", READY, _add_offsets(producer_id=MADE_UP_ID)),
    case(
        ADD_OFFSETS,
        "another epoch",
        READY,
        _add_offsets(producer_epoch=9),
        _add_offsets(producer_epoch=-1),
    ),
    case(ADD_OFFSETS, "no transactional id", READY, _add_offsets(transactional_id="")),
    case(ADD_OFFSETS, "no group", READY, _add_offsets(group_id="")),
    case(ADD_OFFSETS, "null group", READY, _add_offsets(group_id=NULL)),
)

CASES: Final = INIT_CASES + ADD_CASES + ADD_OFFSETS_CASES
