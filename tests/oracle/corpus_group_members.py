"""Members of classic groups: Heartbeat, LeaveGroup."""

from typing import Any, Final

from tests.oracle.corpus_groups import (
    HEARTBEAT,
    JOINED,
    JOINED_STATIC,
    LEAVE_GROUP,
    MEMBER,
    STABLE,
    beat,
)
from tests.oracle.wire_cases import Step, ask, case
from tests.oracle.wire_values import NULL


def _leave(**said: Any) -> Step:
    fields: dict[str, Any] = {
        "group_id": "g-~",
        "member_id": MEMBER,
        "members": [{"member_id": MEMBER}],
    }
    return ask(LEAVE_GROUP, **{**fields, **said})


HEARTBEAT_CASES: Final = (
    case(HEARTBEAT, "a member", STABLE, beat()),
    case(HEARTBEAT, "before it has an assignment", JOINED, beat()),
    case(HEARTBEAT, "an unknown group", beat(member_id="stranger-~")),
    case(HEARTBEAT, "an unknown member", STABLE, beat(member_id="stranger-~"), beat(member_id="")),
    case(
        HEARTBEAT,
        "another generation",
        STABLE,
        beat(generation_id=5),
        beat(generation_id=0),
        beat(generation_id=-1),
    ),
    case(HEARTBEAT, "without a group", beat(group_id="", member_id="")),
    case(HEARTBEAT, "null group", beat(group_id=NULL, member_id="")),
    case(HEARTBEAT, "null member", STABLE, beat(member_id=NULL)),
    case(
        HEARTBEAT,
        "a static member under another id",
        JOINED_STATIC,
        beat(group_instance_id="i-~"),
        beat(member_id="stranger-~", group_instance_id="i-~"),
        beat(group_instance_id="j-~"),
        versions=(3, 4),
    ),
)


LEAVE_CASES: Final = (
    case(LEAVE_GROUP, "a member", STABLE, _leave(), beat(at=4)),
    case(LEAVE_GROUP, "twice", STABLE, _leave(), _leave()),
    case(
        LEAVE_GROUP,
        "an unknown group",
        _leave(member_id="stranger-~", members=[{"member_id": "stranger-~"}]),
    ),
    case(
        LEAVE_GROUP,
        "an unknown member",
        STABLE,
        _leave(member_id="stranger-~", members=[{"member_id": "stranger-~"}]),
    ),
    case(
        LEAVE_GROUP,
        "without a group",
        _leave(group_id="", member_id="", members=[{"member_id": ""}]),
    ),
    case(LEAVE_GROUP, "null group", _leave(group_id=NULL, member_id="", members=[])),
    case(LEAVE_GROUP, "nobody", STABLE, _leave(members=[]), versions=(3, 5)),
    case(LEAVE_GROUP, "null members", STABLE, _leave(members=NULL), versions=(3, 5)),
    case(
        LEAVE_GROUP,
        "known and unknown",
        STABLE,
        _leave(members=[{"member_id": "stranger-~"}, {"member_id": MEMBER}]),
        versions=(3, 5),
    ),
    case(
        LEAVE_GROUP,
        "the same member twice",
        STABLE,
        _leave(members=[{"member_id": MEMBER}] * 2),
        versions=(3, 5),
    ),
    case(
        LEAVE_GROUP,
        "static members",
        JOINED_STATIC,
        _leave(members=[{"member_id": "", "group_instance_id": "j-~"}]),
        _leave(members=[{"member_id": "stranger-~", "group_instance_id": "i-~"}]),
        _leave(members=[{"member_id": "", "group_instance_id": "i-~"}]),
        versions=(3, 5),
    ),
)

CASES: Final = HEARTBEAT_CASES + LEAVE_CASES
