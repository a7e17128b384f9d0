"""Classic groups: finding, joining, syncing."""

from typing import Any, Final

from tests.oracle.wire_cases import PATIENT_MS, Begin, Finish, Step, ask, case, given
from tests.oracle.wire_values import NULL, Saved
from tests.support.group_wire import subscription

FIND_COORDINATOR: Final = 10
JOIN_GROUP: Final = 11
HEARTBEAT: Final = 12
LEAVE_GROUP: Final = 13
SYNC_GROUP: Final = 14
MEMBER: Final = Saved("member")
RANGE: Final = ({"name": "range", "metadata": subscription()},)


def _joining(**said: Any) -> dict[str, Any]:
    fields = {
        "group_id": "g-~",
        "session_timeout": PATIENT_MS,
        "rebalance_timeout": PATIENT_MS,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": RANGE,
    }
    return fields | said


def _join(**said: Any) -> Step:
    return ask(JOIN_GROUP, **_joining(**said))


def _sync(**said: Any) -> Step:
    fields = {
        "group_id": "g-~",
        "generation_id": 1,
        "member_id": MEMBER,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": MEMBER, "assignment": b"mine"}],
    }
    return ask(SYNC_GROUP, **{**fields, **said})


def beat(**said: Any) -> Step:
    fields = {"group_id": "g-~", "generation_id": 1, "member_id": MEMBER}
    return ask(HEARTBEAT, **{**fields, **said})


JOINED: Final = given(
    JOIN_GROUP,
    at=3,  # before members had to ask for an id first (KIP-394)
    save={"member": "member_id"},
    **_joining(),
)
"""A group g-~ with one member that is to lead its first generation."""


def _synced() -> Step:
    return given(
        SYNC_GROUP,
        group_id="g-~",
        generation_id=1,
        member_id=MEMBER,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": MEMBER, "assignment": b"mine"}],
    )


STABLE: Final = (JOINED, _synced())


JOINED_STATIC: Final = (
    given(
        JOIN_GROUP,
        save={"member": "member_id"},
        **_joining(group_instance_id="i-~"),
    ),
    _synced(),
)


def _find(*keys: str, **said: Any) -> Step:
    return ask(
        FIND_COORDINATOR, **{"key": keys[0] if keys else "", "coordinator_keys": keys, **said}
    )


FIND_CASES: Final = (
    case(FIND_COORDINATOR, "of a group", _find("g-~")),
    case(FIND_COORDINATOR, "of a transaction", _find("x-~", key_type=1), versions=(1, 6)),
    case(FIND_COORDINATOR, "of many", _find("b-~", "a-~", "b-~"), versions=(4, 6)),
    case(FIND_COORDINATOR, "of none", _find(), versions=(4, 6)),
    case(FIND_COORDINATOR, "without a name", _find("")),
    case(
        FIND_COORDINATOR, "of a transaction without a name", _find("", key_type=1), versions=(1, 6)
    ),
    case(FIND_COORDINATOR, "of an unknown kind", _find("g-~", key_type=9), versions=(1, 6)),
    case(FIND_COORDINATOR, "of a negative kind", _find("g-~", key_type=-1), versions=(1, 6)),
    case(FIND_COORDINATOR, "of a share group", _find("g-~", key_type=2), versions=(5, 6)),
    case(FIND_COORDINATOR, "null key", _find(key=NULL), versions=(0, 3)),
    case(FIND_COORDINATOR, "null keys", _find(coordinator_keys=NULL), versions=(4, 6)),
)


JOIN_CASES: Final = (
    case(JOIN_GROUP, "the first member", _join()),
    case(
        JOIN_GROUP,
        "with the id that was given",
        _join(save={"member": "member_id"}),
        _join(member_id=MEMBER),
        versions=(4, 9),
    ),
    case(JOIN_GROUP, "a static member", _join(group_instance_id="i-~"), versions=(5, 9)),
    case(
        JOIN_GROUP,
        "a static member that comes again",
        JOINED_STATIC,
        _join(group_instance_id="i-~", save={"next": "member_id"}),
        beat(at=4, member_id=MEMBER, group_instance_id="i-~"),
        beat(at=4, member_id=Saved("next"), group_instance_id="i-~"),
        versions=(5, 9),
    ),
    case(
        JOIN_GROUP,
        "a static member with an unknown id",
        JOINED_STATIC,
        _join(group_instance_id="i-~", member_id="stranger-~"),
        _join(group_instance_id="j-~", member_id="stranger-~"),
        versions=(5, 9),
    ),
    case(
        JOIN_GROUP,
        "again with the same protocols",
        STABLE,
        _join(member_id=MEMBER),
    ),
    case(
        JOIN_GROUP,
        "a second member",
        STABLE,
        Begin(
            asked=ask(
                JOIN_GROUP,
                at=3,
                on="second",
                **_joining(protocols=[{"name": "range", "metadata": subscription("t")}]),
            )
        ),
        beat(at=4, until={"error_code": 27}),
        _join(member_id=MEMBER, at=9),
        Finish(on="second"),
    ),
    case(JOIN_GROUP, "without a group", _join(group_id="")),
    case(JOIN_GROUP, "an unknown member", _join(member_id="stranger-~")),
    case(JOIN_GROUP, "an unknown member of a known group", STABLE, _join(member_id="stranger-~")),
    case(JOIN_GROUP, "no protocols", _join(protocols=[])),
    case(JOIN_GROUP, "no protocol type", _join(protocol_type="")),
    case(JOIN_GROUP, "another protocol type", STABLE, _join(protocol_type="connect")),
    case(
        JOIN_GROUP,
        "no protocol in common",
        STABLE,
        _join(protocols=[{"name": "sticky", "metadata": b""}]),
    ),
    case(JOIN_GROUP, "a short session", _join(session_timeout=10)),
    case(JOIN_GROUP, "a long session", _join(session_timeout=100_000_000)),
    case(JOIN_GROUP, "negative times", _join(session_timeout=-1), _join(rebalance_timeout=-5)),
    case(JOIN_GROUP, "null group", _join(group_id=NULL)),
    case(JOIN_GROUP, "null member", _join(member_id=NULL)),
    case(JOIN_GROUP, "null protocols", _join(protocols=NULL)),
    case(
        JOIN_GROUP,
        "metadata that are none",
        _join(protocols=[{"name": "range", "metadata": b"\1"}]),
    ),
    case(JOIN_GROUP, "an empty instance id", _join(group_instance_id=""), versions=(5, 9)),
    case(JOIN_GROUP, "an invalid instance id", _join(group_instance_id="a b/~"), versions=(5, 9)),
)


SYNC_CASES: Final = (
    case(SYNC_GROUP, "the leader", JOINED, _sync()),
    case(SYNC_GROUP, "again", STABLE, _sync(), _sync(assignments=[])),
    case(SYNC_GROUP, "an unknown group", _sync(member_id="stranger-~", assignments=[])),
    case(SYNC_GROUP, "an unknown member", STABLE, _sync(member_id="stranger-~", assignments=[])),
    case(
        SYNC_GROUP,
        "another generation",
        STABLE,
        _sync(generation_id=5),
        _sync(generation_id=0),
        _sync(generation_id=-1),
    ),
    case(SYNC_GROUP, "without a group", _sync(group_id="", member_id="", assignments=[])),
    case(
        SYNC_GROUP,
        "another protocol",
        JOINED,
        _sync(protocol_name="sticky"),
        _sync(protocol_type="connect"),
        versions=(0, 5),
    ),
    case(
        SYNC_GROUP,
        "no protocol",
        JOINED,
        _sync(protocol_name=None, protocol_type=None),
        versions=(0, 5),
    ),
    case(
        SYNC_GROUP,
        "an assignment for a stranger",
        JOINED,
        _sync(assignments=[{"member_id": "stranger-~", "assignment": b"his"}]),
    ),
    case(SYNC_GROUP, "no assignments", JOINED, _sync(assignments=[])),
    case(SYNC_GROUP, "null group", _sync(group_id=NULL, member_id="", assignments=[])),
    case(SYNC_GROUP, "null assignments", JOINED, _sync(assignments=NULL)),
    case(
        SYNC_GROUP,
        "a static member under another id",
        JOINED_STATIC,
        _sync(member_id="stranger-~", group_instance_id="i-~", assignments=[]),
        _sync(group_instance_id="j-~", assignments=[]),
        versions=(3, 5),
    ),
    case(
        SYNC_GROUP,
        "while others join",
        STABLE,
        Begin(asked=ask(JOIN_GROUP, at=3, on="second", **_joining())),
        beat(at=4, until={"error_code": 27}),
        _sync(),
    ),
)

CASES: Final = FIND_CASES + JOIN_CASES + SYNC_CASES
