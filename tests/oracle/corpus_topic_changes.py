"""Topics that change and go: DeleteTopics, CreatePartitions."""

from typing import Any, Final
from uuid import UUID

from tests.oracle.corpus_topics import NO_SUCH_ID, describe
from tests.oracle.wire_cases import COMMON, PAIR, PATIENT_MS, Step, ask, case, topic, topic_id
from tests.oracle.wire_values import NULL, Null

DELETE_TOPICS: Final = 20
CREATE_PARTITIONS: Final = 37


def _delete(*names: str, **said: Any) -> Step:
    """Delete by name: before v6 the names are in a field of their own."""
    fields = {
        "topic_names": names,
        "topics": [{"name": name} for name in names],
        "timeout": PATIENT_MS,
    }
    return ask(DELETE_TOPICS, **{**fields, **said})


DELETE_CASES: Final = (
    case(DELETE_TOPICS, "a topic", topic(), _delete("t-~")),
    case(
        DELETE_TOPICS,
        "gone when deleted",
        topic(),
        _delete("t-~"),
        describe("t-~", until={"topics.0.error_code": 3}),
    ),
    case(DELETE_TOPICS, "an unknown topic", _delete("no-~")),
    case(DELETE_TOPICS, "known and unknown", topic(), _delete("no-~", "t-~")),
    case(DELETE_TOPICS, "the same name twice", topic(), _delete("t-~", "t-~")),
    case(DELETE_TOPICS, "twice", topic(), _delete("t-~"), _delete("t-~")),
    case(DELETE_TOPICS, "no topics", _delete()),
    case(DELETE_TOPICS, "an empty name", _delete("")),
    case(DELETE_TOPICS, "an invalid name", _delete("a b-~")),
    case(DELETE_TOPICS, "no time at all", topic(), _delete("t-~", timeout=0)),
    case(DELETE_TOPICS, "null topics", _delete("t-~", topics=NULL, topic_names=NULL)),
    case(
        DELETE_TOPICS,
        "by id",
        topic(),
        ask(DELETE_TOPICS, topics=[{"topic_id": topic_id()}], timeout=PATIENT_MS),
        versions=(6,),
    ),
    case(
        DELETE_TOPICS,
        "by unknown ids",
        ask(DELETE_TOPICS, topics=[{"topic_id": NO_SUCH_ID}], timeout=PATIENT_MS),
        ask(DELETE_TOPICS, topics=[{"topic_id": UUID(int=0)}], timeout=PATIENT_MS),
        versions=(6,),
    ),
    case(
        DELETE_TOPICS,
        "by name and id",
        topic(),
        ask(DELETE_TOPICS, topics=[{"name": "t-~", "topic_id": topic_id()}], timeout=PATIENT_MS),
        ask(DELETE_TOPICS, topics=[{"name": "t-~", "topic_id": NO_SUCH_ID}], timeout=PATIENT_MS),
        versions=(6,),
    ),
    case(
        DELETE_TOPICS,
        "by name, and again by id",
        topic(),
        ask(DELETE_TOPICS, topics=[{"name": "t-~"}, {"topic_id": topic_id()}], timeout=PATIENT_MS),
        versions=(6,),
    ),
    case(
        DELETE_TOPICS,
        "by the same id twice",
        topic(),
        ask(DELETE_TOPICS, topics=[{"topic_id": topic_id()}] * 2, timeout=PATIENT_MS),
        versions=(6,),
    ),
)


def _grow(*topics: dict[str, Any], **said: Any) -> Step:
    return ask(CREATE_PARTITIONS, **{"topics": topics, "timeout": PATIENT_MS, **said})


def _to(count: int, name: str | Null = "t-~", **said: Any) -> dict[str, Any]:
    return {"name": name, "count": count, "assignments": None} | said


PARTITION_CASES: Final = (
    case(
        CREATE_PARTITIONS,
        "more partitions",
        topic(),
        _grow(_to(4)),
        describe("t-~", until={f"topics.0.partitions.{at}.error_code": 0 for at in range(4)}),
    ),
    case(CREATE_PARTITIONS, "a dry run", COMMON, _grow(_to(4), validate_only=True)),
    case(CREATE_PARTITIONS, "as many as there are", PAIR, _grow(_to(2))),
    case(CREATE_PARTITIONS, "fewer", PAIR, _grow(_to(1))),
    case(
        CREATE_PARTITIONS,
        "fewer as a dry run",
        PAIR,
        _grow(_to(1), validate_only=True),
    ),
    case(CREATE_PARTITIONS, "none and fewer than none", COMMON, _grow(_to(0)), _grow(_to(-1))),
    case(CREATE_PARTITIONS, "an unknown topic", _grow(_to(2, "no-~"))),
    case(CREATE_PARTITIONS, "an invalid name", _grow(_to(2, "a b-~")), _grow(_to(2, ""))),
    case(CREATE_PARTITIONS, "good and bad together", topic(), _grow(_to(2, "no-~"), _to(2))),
    case(CREATE_PARTITIONS, "the same topic twice", COMMON, _grow(_to(2), _to(3))),
    case(CREATE_PARTITIONS, "no topics", _grow()),
    case(CREATE_PARTITIONS, "null topics", _grow(topics=NULL)),
    case(CREATE_PARTITIONS, "null name", _grow(_to(2, name=NULL))),
    case(CREATE_PARTITIONS, "negative time", topic(), _grow(_to(2), timeout=-1)),
    *(
        case(
            CREATE_PARTITIONS,
            f"assignments: {name}",
            topic(),
            _grow(_to(count, assignments=[{"broker_ids": one} for one in assigned])),
        )
        for name, count, assigned in (
            ("an unknown broker", 2, [[4711]]),
            ("a partition without replicas", 2, [[]]),
            ("fewer than new partitions", 3, [[4711]]),
            ("more than new partitions", 2, [[4711], [4711]]),
            ("none at all", 2, []),
            ("a replica twice", 2, [[4711, 4711]]),
            ("a negative broker", 2, [[-1]]),
            ("another number of replicas", 2, [[4711, 4712]]),
        )
    ),
)

CASES: Final = DELETE_CASES + PARTITION_CASES
