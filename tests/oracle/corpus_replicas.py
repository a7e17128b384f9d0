"""Leaders and replicas: ElectLeaders and reassignments."""

from typing import Any, Final

from tests.oracle.wire_cases import COMMON, PAIR, PATIENT_MS, Step, ask, case, given
from tests.oracle.wire_values import NULL, Saved

ELECT_LEADERS: Final = 43
ALTER_REASSIGNMENTS: Final = 45
LIST_REASSIGNMENTS: Final = 46
PREFERRED, UNCLEAN = 0, 1


def _elect(*partitions: int, name: str = "t-~", **said: Any) -> Step:
    wanted = [{"topic": name, "partitions": partitions}]
    fields = {"election_type": PREFERRED, "topic_partitions": wanted, "timeout": PATIENT_MS}
    return ask(ELECT_LEADERS, **{**fields, **said})


ELECT_CASES: Final = (
    case(ELECT_LEADERS, "the preferred", PAIR, _elect(0, 1)),
    case(ELECT_LEADERS, "an unclean one", COMMON, _elect(0, election_type=UNCLEAN)),
    case(
        ELECT_LEADERS,
        "in an unknown way",
        COMMON,
        _elect(0, election_type=9),
        _elect(0, election_type=-1),
        versions=(1, 2),
    ),
    case(ELECT_LEADERS, "an unknown topic", _elect(0, name="no-~")),
    case(ELECT_LEADERS, "invalid topics", _elect(0, name="a b-~"), _elect(0, name="")),
    case(ELECT_LEADERS, "unknown partitions", COMMON, _elect(9, -1)),
    case(ELECT_LEADERS, "known and unknown", COMMON, _elect(9, 0)),
    case(ELECT_LEADERS, "the same twice", COMMON, _elect(0, 0)),
    case(ELECT_LEADERS, "no partitions", COMMON, _elect()),
    case(ELECT_LEADERS, "no topics", _elect(topic_partitions=[])),
    case(ELECT_LEADERS, "no time", COMMON, _elect(0, timeout=0), _elect(0, timeout=-1)),
    case(
        ELECT_LEADERS,
        "null topics",
        _elect(topic_partitions=None, own=["replica_election_results"]),
    ),
    case(ELECT_LEADERS, "null name", _elect(0, name=NULL)),  # type: ignore[arg-type]
)


def _reassign(*partitions: tuple[int, list[int] | None], name: object = "t-~", **said: Any) -> Step:
    wanted = [{"partition_index": at, "replicas": replicas} for at, replicas in partitions]
    fields = {"timeout": PATIENT_MS, "topics": [{"name": name, "partitions": wanted}]}
    return ask(ALTER_REASSIGNMENTS, **{**fields, **said})


NODE: Final = given(3, topics=[], allow_auto_topic_creation=False, save={"node": "controller_id"})


REASSIGN_CASES: Final = (
    case(
        ALTER_REASSIGNMENTS,
        "to where it is",
        COMMON,
        NODE,
        ask(
            ALTER_REASSIGNMENTS,
            timeout=PATIENT_MS,
            topics=[
                {"name": "t-~", "partitions": [{"partition_index": 0, "replicas": [Saved("node")]}]}
            ],
        ),
    ),
    case(ALTER_REASSIGNMENTS, "to an unknown broker", COMMON, _reassign((0, [4711]))),
    case(ALTER_REASSIGNMENTS, "to a negative broker", COMMON, _reassign((0, [-1]))),
    case(ALTER_REASSIGNMENTS, "to nowhere", COMMON, _reassign((0, []))),
    case(
        ALTER_REASSIGNMENTS,
        "twice to the same",
        COMMON,
        NODE,
        ask(
            ALTER_REASSIGNMENTS,
            timeout=PATIENT_MS,
            topics=[
                {
                    "name": "t-~",
                    "partitions": [
                        {"partition_index": 0, "replicas": [Saved("node"), Saved("node")]}
                    ],
                }
            ],
        ),
    ),
    case(ALTER_REASSIGNMENTS, "a cancellation of nothing", COMMON, _reassign((0, None))),
    case(
        ALTER_REASSIGNMENTS,
        "another number of replicas",
        COMMON,
        _reassign((0, [4711, 4712]), allow_replication_factor_change=False),
        versions=(1,),
    ),
    case(
        ALTER_REASSIGNMENTS,
        "an unknown topic",
        _reassign((0, [4711]), name="no-~"),
        _reassign((0, None), name="no-~"),
    ),
    case(
        ALTER_REASSIGNMENTS,
        "invalid topics",
        _reassign((0, None), name="a b-~"),
        _reassign((0, None), name=""),
    ),
    case(
        ALTER_REASSIGNMENTS,
        "unknown partitions",
        COMMON,
        _reassign((9, None), (-1, None), (9, [4711])),
    ),
    case(ALTER_REASSIGNMENTS, "the same twice", COMMON, _reassign((0, None), (0, None))),
    case(ALTER_REASSIGNMENTS, "no partitions", COMMON, _reassign()),
    case(ALTER_REASSIGNMENTS, "no topics", _reassign(topics=[])),
    case(
        ALTER_REASSIGNMENTS,
        "no time",
        COMMON,
        _reassign((0, None), timeout=0),
        _reassign((0, None), timeout=-1),
    ),
    case(ALTER_REASSIGNMENTS, "null topics", _reassign(topics=NULL)),
    case(ALTER_REASSIGNMENTS, "null name", _reassign((0, None), name=NULL)),
)


def _moving(*topics: tuple[object, list[int]], **said: Any) -> Step:
    asked = [{"name": name, "partition_indexes": partitions} for name, partitions in topics]
    return ask(LIST_REASSIGNMENTS, **{"timeout": PATIENT_MS, "topics": asked, **said})


LIST_REASSIGNMENT_CASES: Final = (
    case(LIST_REASSIGNMENTS, "all", _moving(topics=None)),
    case(LIST_REASSIGNMENTS, "a topic", COMMON, _moving(("t-~", [0]))),
    case(
        LIST_REASSIGNMENTS,
        "unknown topics and partitions",
        COMMON,
        _moving(("no-~", [0]), ("t-~", [9, -1])),
    ),
    case(LIST_REASSIGNMENTS, "nothing", _moving()),
    case(
        LIST_REASSIGNMENTS,
        "no time",
        _moving(timeout=0, topics=None),
        _moving(timeout=-1, topics=None),
    ),
    case(LIST_REASSIGNMENTS, "null name", _moving((NULL, [0]))),
)

CASES: Final = ELECT_CASES + REASSIGN_CASES + LIST_REASSIGNMENT_CASES
