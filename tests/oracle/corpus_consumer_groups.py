"""Groups of KIP-848: ConsumerGroupHeartbeat, ConsumerGroupDescribe."""

from typing import Any, Final

from tests.oracle.corpus_groups import STABLE
from tests.oracle.corpus_topics import NO_SUCH_ID
from tests.oracle.wire_cases import COMMON, PAIR, Step, ask, case, given, topic_id
from tests.oracle.wire_values import NULL, Saved

HEARTBEAT: Final = 68
DESCRIBE: Final = 69
LEAVING, LEAVING_STATIC = -1, -2

ME: Final = "member-~"
ASSIGNED: Final = {"assignment.topic_partitions.0.partitions.0": 0}


def _saying(epoch: object, **said: Any) -> dict[str, Any]:
    """Return a heartbeat; one with epoch 0 says all that a joining member has to."""
    fields: dict[str, Any] = {
        "group_id": "g-~",
        "member_id": ME,
        "member_epoch": epoch,
        "rebalance_timeout": -1,
        "subscribed_topic_names": None,
        "topic_partitions": None,
    }
    joining = {
        "rebalance_timeout": 30_000,
        "subscribed_topic_names": ["t-~"],
        "topic_partitions": [],
    }
    return fields | (joining if epoch == 0 else {}) | said


def _beat(epoch: object, **said: Any) -> Step:
    return ask(HEARTBEAT, **_saying(epoch, **said))


def _joined(**said: Any) -> Step:
    """Join, until the assignment is there: Apache Kafka makes it in the background."""
    values = _saying(0, **said)
    return given(
        HEARTBEAT,
        save={"member": "member_id", "epoch": "member_epoch"},
        until=ASSIGNED,
        **values,
    )


IN: Final = (PAIR, _joined())
MEMBER, EPOCH = Saved("member"), Saved("epoch")


def _owning(*partitions: int, **said: Any) -> dict[str, Any]:
    return {"topic_partitions": [{"topic_id": topic_id(), "partitions": partitions}], **said}


HEARTBEAT_CASES: Final = (
    case(HEARTBEAT, "a new member without topics", _beat(0, subscribed_topic_names=[])),
    case(HEARTBEAT, "a new member of an unknown topic", _beat(0, subscribed_topic_names=["no-~"])),
    case(
        HEARTBEAT,
        "a member",
        IN,
        _beat(EPOCH, member_id=MEMBER),
        _beat(EPOCH, member_id=MEMBER, **_owning(0, 1)),
    ),
    case(HEARTBEAT, "without a member id", COMMON, _beat(0, member_id=""), versions=(0, 1)),
    case(
        HEARTBEAT,
        "a member leaves",
        IN,
        _beat(LEAVING, member_id=MEMBER),
        _beat(EPOCH, member_id=MEMBER),
    ),
    case(
        HEARTBEAT, "a static member leaves as if not", IN, _beat(LEAVING_STATIC, member_id=MEMBER)
    ),
    case(
        HEARTBEAT,
        "static members",
        COMMON,
        given(
            HEARTBEAT,
            save={"member": "member_id", "epoch": "member_epoch"},
            **_saying(0, instance_id="i-~"),
        ),
        _beat(0, member_id="other-~", instance_id="i-~"),
        _beat(LEAVING_STATIC, member_id=MEMBER, instance_id="i-~"),
        _beat(0, member_id="other-~", instance_id="i-~"),
        _beat(EPOCH, member_id=MEMBER, instance_id="i-~"),
    ),
    case(HEARTBEAT, "a member of no group", _beat(5), _beat(LEAVING)),
    case(HEARTBEAT, "an unknown member", IN, _beat(EPOCH, member_id="stranger-~")),
    case(HEARTBEAT, "an epoch to come", IN, _beat(1000, member_id=MEMBER)),
    case(HEARTBEAT, "an epoch that cannot be", IN, _beat(-3, member_id=MEMBER)),
    case(HEARTBEAT, "without a group", _beat(0, group_id="")),
    case(HEARTBEAT, "joining without a time to rebalance", COMMON, _beat(0, rebalance_timeout=-1)),
    case(HEARTBEAT, "joining without topics", _beat(0, subscribed_topic_names=None)),
    case(HEARTBEAT, "joining with partitions", COMMON, _beat(0, **_owning(0))),
    case(HEARTBEAT, "joining without partitions", COMMON, _beat(0, topic_partitions=None)),
    case(HEARTBEAT, "no time to rebalance", COMMON, _beat(0, rebalance_timeout=0)),
    case(
        HEARTBEAT,
        "an unknown assignor",
        COMMON,
        _beat(0, server_assignor="roulette"),
        _beat(0, server_assignor=""),
    ),
    case(
        HEARTBEAT,
        "known assignors",
        COMMON,
        _beat(0, server_assignor="range", until=ASSIGNED),
    ),
    case(HEARTBEAT, "empty words", COMMON, _beat(0, instance_id=""), _beat(0, rack_id="")),
    case(
        HEARTBEAT,
        "a regular expression",
        COMMON,
        given(HEARTBEAT, **_saying(0, subscribed_topic_names=None, subscribed_topic_regex="t-~.*")),
        _beat(LEAVING),
        versions=(1,),
    ),
    case(
        HEARTBEAT,
        "a broken regular expression",
        _beat(0, subscribed_topic_names=None, subscribed_topic_regex="t-(("),
        versions=(1,),
    ),
    case(
        HEARTBEAT,
        "an empty regular expression",
        _beat(0, subscribed_topic_names=None, subscribed_topic_regex=""),
        versions=(1,),
    ),
    case(
        HEARTBEAT,
        "an invalid topic",
        _beat(0, subscribed_topic_names=["a b"]),
        _beat(0, subscribed_topic_names=[""]),
    ),
    case(
        HEARTBEAT,
        "the same topic twice",
        COMMON,
        _beat(0, subscribed_topic_names=["t-~", "t-~"], until=ASSIGNED),
    ),
    case(
        HEARTBEAT,
        "owning what was not given",
        IN,
        _beat(EPOCH, member_id=MEMBER, **_owning(0, 1, 7)),
    ),
    case(
        HEARTBEAT,
        "owning an unknown topic",
        IN,
        _beat(
            EPOCH, member_id=MEMBER, topic_partitions=[{"topic_id": NO_SUCH_ID, "partitions": [0]}]
        ),
    ),
    case(HEARTBEAT, "in a classic group", STABLE, COMMON, _beat(0), _beat(5)),
    case(HEARTBEAT, "null group", _beat(0, group_id=NULL)),
    case(HEARTBEAT, "null member", _beat(0, member_id=NULL)),
)


def _describe(*groups: str, **said: Any) -> Step:
    return ask(DESCRIBE, **{"group_ids": groups, **said})


DESCRIBE_CASES: Final = (
    case(
        DESCRIBE,
        "a group",
        IN,
        given(HEARTBEAT, **_saying(EPOCH, member_id=MEMBER, **_owning(0, 1))),
        _describe("g-~"),
    ),
    case(DESCRIBE, "a member on its way", IN, _describe("g-~")),
    case(DESCRIBE, "an unknown group", _describe("no-~")),
    case(DESCRIBE, "a classic group", STABLE, _describe("g-~")),
    case(DESCRIBE, "several", IN, _describe("no-~", "g-~", "g-~")),
    case(DESCRIBE, "without a name", _describe("")),
    case(DESCRIBE, "nothing", _describe()),
    case(DESCRIBE, "null groups", _describe(group_ids=NULL)),
    case(
        DESCRIBE, "authorized operations", IN, _describe("g-~", include_authorized_operations=True)
    ),
    case(
        DESCRIBE,
        "after all left",
        IN,
        given(HEARTBEAT, **_saying(LEAVING, member_id=MEMBER)),
        _describe("g-~"),
    ),
    case(DESCRIBE, "as a classic group", IN, ask(15, groups=["g-~"])),
    case(
        DESCRIBE,
        "in the list",
        IN,
        ask(16, own=["groups"]),
        ask(16, types_filter=["Consumer"], own=["groups"]),
    ),
    case(
        DESCRIBE,
        "classic members of it",
        IN,
        ask(12, group_id="g-~", member_id=MEMBER, generation_id=1),
        ask(13, group_id="g-~", members=[{"member_id": MEMBER}]),
        ask(14, group_id="g-~", member_id=MEMBER, generation_id=1),
    ),
    case(
        DESCRIBE,
        "commits of members",
        IN,
        *(
            ask(
                8,
                group_id="g-~",
                member_id=member,
                generation_id_or_member_epoch=epoch,
                topics=[
                    {
                        "topic_id": topic_id(),
                        "partitions": [{"partition_index": 0, "committed_offset": 1}],
                    }
                ],
            )
            for member, epoch in (
                (MEMBER, EPOCH),
                (MEMBER, 0),
                (MEMBER, 1000),
                ("stranger-~", 1),
                ("", -1),
            )
        ),
        *(
            ask(
                9,
                groups=[
                    {
                        "group_id": "g-~",
                        "member_id": member,
                        "member_epoch": epoch,
                        "topics": [{"topic_id": topic_id(), "partition_indexes": [0]}],
                    }
                ],
            )
            for member, epoch in (
                (MEMBER, EPOCH),
                (MEMBER, 0),
                (MEMBER, 1000),
                ("stranger-~", 1),
                (None, -1),
            )
        ),
        ask(47, group_id="g-~", topics=[{"name": "t-~", "partitions": [{"partition_index": 0}]}]),
        ask(42, groups_names=["g-~"]),
    ),
)

CASES: Final = HEARTBEAT_CASES + DESCRIBE_CASES
