"""Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete."""

from typing import Any, Final
from uuid import UUID

from tests.oracle.corpus_groups import JOINED, JOINED_STATIC, MEMBER, STABLE
from tests.oracle.corpus_topics import NO_SUCH_ID
from tests.oracle.wire_cases import COMMON, PAIR, Given, Step, ask, case, given
from tests.oracle.wire_values import NULL, Saved

OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
OFFSET_DELETE: Final = 47

LONGEST_METADATA: Final = 4096


def _committing(*partitions: dict[str, Any], name: str = "t-~", **said: Any) -> dict[str, Any]:
    fields = {
        "group_id": "g-~",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "retention_time": -1,
        "topics": [{"name": name, "topic_id": Saved(name, None), "partitions": partitions}],
    }
    return fields | said


def _at(offset: int, partition: int = 0, **said: Any) -> dict[str, Any]:
    fields = {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_metadata": "",
    }
    return fields | said


def _commit(*partitions: dict[str, Any], **said: Any) -> Step:
    return ask(OFFSET_COMMIT, **_committing(*partitions, **said))


def committed(*partitions: dict[str, Any], **said: Any) -> Given:
    return given(OFFSET_COMMIT, at=9, **_committing(*partitions, **said))


def _of_member(generation: int, **said: Any) -> dict[str, Any]:
    return {"generation_id_or_member_epoch": generation, "member_id": MEMBER} | said


COMMIT_CASES: Final = (
    case(OFFSET_COMMIT, "outside of a group", COMMON, _commit(_at(3))),
    case(
        OFFSET_COMMIT,
        "with metadata",
        COMMON,
        _commit(_at(3, committed_metadata="note", committed_leader_epoch=2)),
    ),
    case(OFFSET_COMMIT, "null metadata", COMMON, _commit(_at(3, committed_metadata=None))),
    case(OFFSET_COMMIT, "of a member", COMMON, STABLE, _commit(_at(3), **_of_member(1))),
    case(
        OFFSET_COMMIT,
        "of another generation",
        COMMON,
        STABLE,
        _commit(_at(3), **_of_member(5)),
        _commit(_at(3), **_of_member(0)),
        _commit(_at(3), **_of_member(-1)),
    ),
    case(
        OFFSET_COMMIT,
        "of an unknown member",
        COMMON,
        STABLE,
        _commit(_at(3), **_of_member(1, member_id="stranger-~")),
    ),
    case(OFFSET_COMMIT, "of nobody in a group with members", COMMON, STABLE, _commit(_at(3))),
    case(
        OFFSET_COMMIT,
        "of a member of an unknown group",
        COMMON,
        _commit(_at(3), generation_id_or_member_epoch=1, member_id="stranger-~"),
    ),
    case(OFFSET_COMMIT, "before the assignment", COMMON, JOINED, _commit(_at(3), **_of_member(1))),
    case(
        OFFSET_COMMIT,
        "of a static member",
        COMMON,
        JOINED_STATIC,
        _commit(_at(3), **_of_member(1, group_instance_id="i-~")),
        _commit(_at(3), **_of_member(1, group_instance_id="j-~")),
        _commit(_at(3), **_of_member(1, group_instance_id="i-~", member_id="stranger-~")),
        versions=(7, 10),
    ),
    case(OFFSET_COMMIT, "without a group", COMMON, _commit(_at(3, 9), group_id="")),
    case(OFFSET_COMMIT, "an unknown topic", _commit(_at(3), name="no-~"), versions=(2, 9)),
    case(
        OFFSET_COMMIT,
        "known and unknown",
        COMMON,
        _commit(topics=[{"name": one, "partitions": [_at(3)]} for one in ("no-~", "t-~")]),
        versions=(2, 9),
    ),
    case(
        OFFSET_COMMIT,
        "an invalid name",
        _commit(_at(3), name="a b-~"),
        _commit(_at(3), name=""),
        versions=(2, 9),
    ),
    case(
        OFFSET_COMMIT,
        "unknown topic ids",
        _commit(topics=[{"topic_id": NO_SUCH_ID, "partitions": [_at(3)]}]),
        _commit(topics=[{"topic_id": UUID(int=0), "partitions": [_at(3)]}]),
        versions=(10,),
    ),
    case(OFFSET_COMMIT, "unknown partitions", COMMON, _commit(_at(3, 9), _at(3, -1), _at(3))),
    case(OFFSET_COMMIT, "negative offsets", COMMON, _commit(_at(-1)), _commit(_at(-2))),
    case(
        OFFSET_COMMIT,
        "metadata too long",
        PAIR,
        _commit(_at(3, committed_metadata="x" * (LONGEST_METADATA + 1)), _at(3, 1)),
    ),
    case(
        OFFSET_COMMIT,
        "metadata as long as allowed",
        COMMON,
        _commit(_at(3, committed_metadata="x" * LONGEST_METADATA)),
    ),
    case(OFFSET_COMMIT, "the same partition twice", COMMON, _commit(_at(3), _at(4))),
    case(OFFSET_COMMIT, "no topics", _commit(topics=[])),
    case(OFFSET_COMMIT, "no partitions", COMMON, _commit()),
    case(OFFSET_COMMIT, "null group", _commit(group_id=NULL, topics=[])),
    case(OFFSET_COMMIT, "null topics", _commit(topics=NULL)),
    case(
        OFFSET_COMMIT,
        "a retention of its own",
        COMMON,
        _commit(_at(3), retention_time=1000),
        versions=(2, 4),
    ),
)


def _fetch(*partitions: int, name: str = "t-~", group: str = "g-~", **said: Any) -> Step:
    topics = [{"name": name, "topic_id": Saved(name, None), "partition_indexes": partitions}]
    return _fetch_topics(topics, group=group, **said)


def _fetch_topics(topics: Any, group: str = "g-~", **said: Any) -> Step:
    """Ask for one group: before v8 it is the request's own, later one of an array."""
    members: dict[str, Any] = {
        name: said.pop(name) for name in ("member_id", "member_epoch") if name in said
    }
    groups = [{"group_id": group, "topics": topics, **members}]
    return ask(OFFSET_FETCH, **{"group_id": group, "topics": topics, "groups": groups, **said})


FETCH_CASES: Final = (
    case(
        OFFSET_FETCH,
        "an offset",
        PAIR,
        committed(_at(3, 1, committed_metadata="note", committed_leader_epoch=2)),
        _fetch(0, 1),
    ),
    case(
        OFFSET_FETCH,
        "all offsets",
        COMMON,
        committed(_at(3)),
        _fetch_topics(None),
        versions=(2, 9),
    ),
    case(OFFSET_FETCH, "null topics", _fetch_topics(NULL), versions=(1,)),
    case(OFFSET_FETCH, "no topics", COMMON, committed(_at(3)), _fetch_topics([])),
    case(
        OFFSET_FETCH,
        "an unknown group",
        COMMON,
        _fetch(0, group="no-~"),
        _fetch_topics(None, group="no-~"),
        versions=(2, 9),
    ),
    case(OFFSET_FETCH, "without a group", COMMON, _fetch(0, group="")),
    case(
        OFFSET_FETCH,
        "an unknown topic",
        COMMON,
        committed(_at(3)),
        _fetch(0, name="no-~"),
        versions=(1, 9),
    ),
    case(OFFSET_FETCH, "an invalid name", _fetch(0, name="a b-~"), versions=(1, 9)),
    case(
        OFFSET_FETCH,
        "unknown topic ids",
        _fetch_topics([{"topic_id": NO_SUCH_ID, "partition_indexes": [0]}]),
        _fetch_topics([{"topic_id": UUID(int=0), "partition_indexes": [0]}]),
        versions=(10,),
    ),
    case(OFFSET_FETCH, "unknown partitions", COMMON, committed(_at(3)), _fetch(9, -1, 0)),
    case(OFFSET_FETCH, "the same partition twice", COMMON, committed(_at(3)), _fetch(0, 0)),
    case(
        OFFSET_FETCH,
        "stable offsets",
        COMMON,
        committed(_at(3)),
        _fetch(0, require_stable=True),
        versions=(7, 10),
    ),
    case(
        OFFSET_FETCH,
        "several groups",
        COMMON,
        committed(_at(3)),
        committed(_at(4), group_id="h-~"),
        ask(
            OFFSET_FETCH,
            groups=[
                {
                    "group_id": name,
                    "topics": [{"name": "t-~", "topic_id": Saved("t-~"), "partition_indexes": [0]}],
                }
                for name in ("g-~", "no-~", "h-~", "g-~", "")
            ],
        ),
        versions=(8, 10),
    ),
    case(OFFSET_FETCH, "no groups", ask(OFFSET_FETCH, groups=[]), versions=(8, 10)),
    case(OFFSET_FETCH, "null groups", ask(OFFSET_FETCH, groups=NULL), versions=(8, 10)),
    case(OFFSET_FETCH, "null group", ask(OFFSET_FETCH, group_id=NULL), versions=(1, 7)),
    case(
        OFFSET_FETCH,
        "as a member of a classic group",
        COMMON,
        STABLE,
        _fetch(0, member_id=MEMBER, member_epoch=1),
        _fetch(0, member_id=MEMBER, member_epoch=9),
        _fetch(0, member_id="stranger-~", member_epoch=1),
        versions=(9, 10),
    ),
    case(
        OFFSET_FETCH,
        "as a member of no group",
        COMMON,
        _fetch(0, member_id="stranger-~", member_epoch=1),
        versions=(9, 10),
    ),
)


def _delete(*partitions: int, name: str = "t-~", **said: Any) -> Step:
    topics = [{"name": name, "partitions": [{"partition_index": one} for one in partitions]}]
    return ask(OFFSET_DELETE, **{"group_id": "g-~", "topics": topics, **said})


DELETE_CASES: Final = (
    case(
        OFFSET_DELETE,
        "an offset",
        PAIR,
        committed(_at(3), _at(4, 1)),
        _delete(0),
        _fetch(0, 1, at=9),
    ),
    case(OFFSET_DELETE, "what was not committed", PAIR, committed(_at(3)), _delete(1)),
    case(OFFSET_DELETE, "an unknown group", COMMON, _delete(0)),
    case(OFFSET_DELETE, "without a group", _delete(0, group_id="")),
    case(OFFSET_DELETE, "an unknown topic", COMMON, committed(_at(3)), _delete(0, name="no-~")),
    case(OFFSET_DELETE, "unknown partitions", COMMON, committed(_at(3)), _delete(9, -1, 0)),
    case(OFFSET_DELETE, "the same partition twice", COMMON, committed(_at(3)), _delete(0, 0)),
    case(OFFSET_DELETE, "of a group with members", COMMON, STABLE, _delete(0)),
    case(OFFSET_DELETE, "no topics", COMMON, committed(_at(3)), _delete(topics=[])),
    case(OFFSET_DELETE, "no partitions", COMMON, committed(_at(3)), _delete()),
    case(OFFSET_DELETE, "null topics", _delete(topics=NULL)),
    case(OFFSET_DELETE, "null group", _delete(0, group_id=NULL)),
)

CASES: Final = COMMIT_CASES + FETCH_CASES + DELETE_CASES
