"""TxnOffsetCommit, DescribeTransactions, ListTransactions."""

from typing import Any, Final

from tests.oracle.corpus_transaction_ends import OPEN, OPEN_ALONE, ended
from tests.oracle.corpus_transactions import ADD_OFFSETS, ID, IDENTITY, READY, STRANGER, WRITTEN_TO
from tests.oracle.wire_cases import Step, ask, case, given
from tests.oracle.wire_values import MADE_UP_ID, NULL

TXN_OFFSET_COMMIT: Final = 28
DESCRIBE_TRANSACTIONS: Final = 65
LIST_TRANSACTIONS: Final = 66
OFFSETS_ADDED: Final = given(ADD_OFFSETS, at=3, **IDENTITY, group_id="g-~")


def _commit(**said: Any) -> Step:
    fields: dict[str, Any] = IDENTITY | {
        "group_id": "g-~",
        "generation_id": -1,
        "member_id": "",
        "topics": [
            {
                "name": "t-~",
                "partitions": [
                    {"partition_index": 0, "committed_offset": 3, "committed_metadata": ""}
                ],
            }
        ],
    }
    return ask(TXN_OFFSET_COMMIT, **{**fields, **said})


def _topics(*partitions: tuple[int, int], name: str = "t-~", **said: Any) -> dict[str, Any]:
    offsets = [
        {"partition_index": index, "committed_offset": offset, "committed_metadata": "", **said}
        for index, offset in partitions
    ]
    return {"topics": [{"name": name, "partitions": offsets}]}


IN_GROUP: Final = (*READY, OFFSETS_ADDED)


TXN_OFFSET_COMMIT_CASES: Final = (
    case(
        TXN_OFFSET_COMMIT,
        "offsets",
        IN_GROUP,
        _commit(),
        ask(
            9,
            at=9,
            groups=[{"group_id": "g-~", "topics": [{"name": "t-~", "partition_indexes": [0]}]}],
            require_stable=True,
        ),
        ask(
            9,
            at=9,
            groups=[{"group_id": "g-~", "topics": [{"name": "t-~", "partition_indexes": [0]}]}],
        ),
        ended(),
        ask(
            9,
            at=9,
            groups=[{"group_id": "g-~", "topics": [{"name": "t-~", "partition_indexes": [0]}]}],
            until={"groups.0.topics.0.partitions.0.committed_offset": 3},
        ),
    ),
    case(
        TXN_OFFSET_COMMIT,
        "without the group",
        READY,
        _commit(),
        alone=True,  # Apache Kafka mixes up the codes of transactions that it verifies together
    ),
    case(
        TXN_OFFSET_COMMIT,
        "unknown partitions",
        IN_GROUP,
        _commit(**_topics((9, 3), (-1, 3), (0, 3))),
    ),
    case(TXN_OFFSET_COMMIT, "an unknown topic", IN_GROUP, _commit(**_topics((0, 3), name="no-~"))),
    case(TXN_OFFSET_COMMIT, "an invalid name", IN_GROUP, _commit(**_topics((0, 3), name="a b-~"))),
    case(TXN_OFFSET_COMMIT, "negative offsets", IN_GROUP, _commit(**_topics((0, -1)))),
    case(
        TXN_OFFSET_COMMIT,
        "metadata too long",
        IN_GROUP,
        _commit(**_topics((0, 3), committed_metadata="x" * 4097)),
    ),
    case(TXN_OFFSET_COMMIT, "an unknown transactional id", WRITTEN_TO, _commit(**STRANGER)),
    case(TXN_OFFSET_COMMIT, "another producer id", IN_GROUP, _commit(producer_id=MADE_UP_ID)),
    case(TXN_OFFSET_COMMIT, "another epoch", IN_GROUP, _commit(producer_epoch=9)),
    case(
        TXN_OFFSET_COMMIT,
        "another epoch and a group of nobody",
        READY,
        _commit(producer_epoch=9),
        ask(15, at=5, groups=["g-~"]),
        versions=(2, 5),
    ),
    case(TXN_OFFSET_COMMIT, "no group", IN_GROUP, _commit(group_id="")),
    case(TXN_OFFSET_COMMIT, "no transactional id", IN_GROUP, _commit(transactional_id="")),
    case(
        TXN_OFFSET_COMMIT,
        "of an unknown member",
        IN_GROUP,
        _commit(member_id="stranger-~", generation_id=1),
        versions=(3, 5),
    ),
    case(
        TXN_OFFSET_COMMIT,
        "of a generation of nobody",
        IN_GROUP,
        _commit(generation_id=4),
        versions=(3, 5),
    ),
    case(TXN_OFFSET_COMMIT, "no topics", IN_GROUP, _commit(topics=[])),
    case(TXN_OFFSET_COMMIT, "null topics", IN_GROUP, _commit(topics=NULL)),
)


def _describe(*ids: str, **said: Any) -> Step:
    return ask(DESCRIBE_TRANSACTIONS, **{"transactional_ids": ids, **said})


DESCRIBE_CASES: Final = (
    case(DESCRIBE_TRANSACTIONS, "one that is open", OPEN, _describe("x-~")),
    case(DESCRIBE_TRANSACTIONS, "one that has not begun", READY, _describe("x-~")),
    case(
        DESCRIBE_TRANSACTIONS,
        "one that ended",
        OPEN,
        ended(),
        ask(
            DESCRIBE_TRANSACTIONS,
            transactional_ids=["x-~"],
            until={"transaction_states.0.transaction_state": "CompleteCommit"},
        ),
    ),
    case(DESCRIBE_TRANSACTIONS, "an unknown one", _describe("no-~")),
    case(DESCRIBE_TRANSACTIONS, "without a name", _describe("")),
    case(DESCRIBE_TRANSACTIONS, "several", READY, _describe("no-~", "x-~", "x-~")),
    case(DESCRIBE_TRANSACTIONS, "nothing", _describe()),
    case(DESCRIBE_TRANSACTIONS, "null ids", _describe(transactional_ids=NULL)),
    case(
        DESCRIBE_TRANSACTIONS,
        "its producers",
        OPEN_ALONE,
        ask(61, topics=[{"name": "t-~", "partition_indexes": [0]}]),
    ),
)


def _list(**said: Any) -> Step:
    return ask(LIST_TRANSACTIONS, own=["transaction_states"], **{"duration_filter": -1, **said})


LIST_CASES: Final = (
    case(LIST_TRANSACTIONS, "all", OPEN, _list()),
    case(
        LIST_TRANSACTIONS,
        "by state",
        OPEN,
        _list(state_filters=["Ongoing"]),
        _list(state_filters=["Empty"]),
    ),
    case(
        LIST_TRANSACTIONS,
        "by unknown states",
        OPEN,
        _list(state_filters=["Sleepy", "Ongoing"]),
        _list(state_filters=["ongoing"]),
        _list(state_filters=[""]),
    ),
    case(
        LIST_TRANSACTIONS,
        "by producer",
        OPEN,
        _list(producer_id_filters=[ID]),
        _list(producer_id_filters=[MADE_UP_ID]),
        _list(producer_id_filters=[-1]),
    ),
    case(
        LIST_TRANSACTIONS,
        "by age",
        OPEN,
        _list(duration_filter=0),
        _list(duration_filter=1_000_000_000),
        _list(duration_filter=-7),
        versions=(1, 2),
    ),
    case(
        LIST_TRANSACTIONS,
        "by pattern",
        OPEN,
        _list(transactional_id_pattern="x-~"),
        _list(transactional_id_pattern="x-.*"),
        _list(transactional_id_pattern="y.*"),
        _list(transactional_id_pattern="((~"),
        _list(transactional_id_pattern=""),
        versions=(2,),
    ),
    case(LIST_TRANSACTIONS, "null states", _list(state_filters=NULL)),
)

CASES: Final = TXN_OFFSET_COMMIT_CASES + DESCRIBE_CASES + LIST_CASES
