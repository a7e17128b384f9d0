"""What shows groups: DescribeGroups, ListGroups, DeleteGroups."""

from typing import Any, Final

from tests.oracle.corpus_groups import JOINED, JOINED_STATIC, LEAVE_GROUP, MEMBER, STABLE
from tests.oracle.wire_cases import COMMON, Step, ask, case, given
from tests.oracle.wire_values import NULL

DESCRIBE_GROUPS: Final = 15
LIST_GROUPS: Final = 16
DELETE_GROUPS: Final = 42


def _describe(*groups: str, **said: Any) -> Step:
    return ask(DESCRIBE_GROUPS, **{"groups": groups, **said})


COMMITTED: Final = given(
    8,
    at=9,
    group_id="g-~",
    generation_id_or_member_epoch=-1,
    member_id="",
    topics=[{"name": "t-~", "partitions": [{"partition_index": 0, "committed_offset": 3}]}],
)


DESCRIBE_CASES: Final = (
    case(DESCRIBE_GROUPS, "a stable group", STABLE, _describe("g-~")),
    case(DESCRIBE_GROUPS, "a group without assignments", JOINED, _describe("g-~")),
    case(DESCRIBE_GROUPS, "a static member", JOINED_STATIC, _describe("g-~")),
    case(DESCRIBE_GROUPS, "a group of offsets alone", COMMON, COMMITTED, _describe("g-~")),
    case(DESCRIBE_GROUPS, "an unknown group", _describe("no-~")),
    case(DESCRIBE_GROUPS, "several", STABLE, _describe("no-~", "g-~", "g-~")),
    case(DESCRIBE_GROUPS, "nothing", _describe()),
    case(DESCRIBE_GROUPS, "null groups", _describe(groups=NULL)),
    case(
        DESCRIBE_GROUPS,
        "authorized operations",
        STABLE,
        _describe("g-~", "no-~", include_authorized_operations=True),
        versions=(3, 6),
    ),
    case(
        DESCRIBE_GROUPS,
        "after all left",
        STABLE,
        given(LEAVE_GROUP, group_id="g-~", members=[{"member_id": MEMBER}]),
        _describe("g-~"),
    ),
)


def _list(**said: Any) -> Step:
    return ask(LIST_GROUPS, own=["groups"], **said)


LIST_CASES: Final = (
    case(LIST_GROUPS, "all", STABLE, _list()),
    case(LIST_GROUPS, "of offsets alone", COMMON, COMMITTED, _list()),
    case(
        LIST_GROUPS,
        "by state",
        STABLE,
        _list(states_filter=["Stable"]),
        _list(states_filter=["Empty"]),
        _list(states_filter=["stable"]),
        versions=(4, 5),
    ),
    case(
        LIST_GROUPS,
        "by an unknown state",
        STABLE,
        _list(states_filter=["Sleepy"]),
        _list(states_filter=[""]),
        versions=(4, 5),
    ),
    case(
        LIST_GROUPS,
        "by type",
        STABLE,
        _list(types_filter=["classic"]),
        _list(types_filter=["Classic"]),
        _list(types_filter=["consumer"]),
        versions=(5,),
    ),
    case(
        LIST_GROUPS,
        "by an unknown type",
        STABLE,
        _list(types_filter=["jazz"]),
        _list(types_filter=[""]),
        versions=(5,),
    ),
    case(
        LIST_GROUPS,
        "by state and type",
        STABLE,
        _list(states_filter=["Stable"], types_filter=["classic"]),
        versions=(5,),
    ),
    case(LIST_GROUPS, "null states", _list(states_filter=NULL), versions=(4, 5)),
)


def _delete(*groups: str, **said: Any) -> Step:
    return ask(DELETE_GROUPS, **{"groups_names": groups, **said})


DELETE_CASES: Final = (
    case(
        DELETE_GROUPS, "an empty group", COMMON, COMMITTED, _delete("g-~"), _describe("g-~", at=5)
    ),
    case(DELETE_GROUPS, "a group with members", STABLE, _delete("g-~")),
    case(DELETE_GROUPS, "an unknown group", _delete("no-~")),
    case(DELETE_GROUPS, "several", COMMON, COMMITTED, _delete("no-~", "g-~")),
    case(DELETE_GROUPS, "the same twice", COMMON, COMMITTED, _delete("g-~", "g-~")),
    case(DELETE_GROUPS, "nothing", _delete()),
    case(DELETE_GROUPS, "null groups", _delete(groups_names=NULL)),
)

CASES: Final = DESCRIBE_CASES + LIST_CASES + DELETE_CASES
