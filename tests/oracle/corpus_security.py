"""Who may do what: ACLs, delegation tokens, SCRAM credentials."""

import hashlib
from typing import Any, Final

from tests.oracle.wire_cases import Step, ask, case, given
from tests.oracle.wire_values import NULL

DESCRIBE_ACLS: Final = 29
CREATE_ACLS: Final = 30
DELETE_ACLS: Final = 31
CREATE_TOKEN: Final = 38
RENEW_TOKEN: Final = 39
EXPIRE_TOKEN: Final = 40
DESCRIBE_TOKEN: Final = 41
DESCRIBE_SCRAM: Final = 50
ALTER_SCRAM: Final = 51
ANY: Final = 1
TOPIC: Final = 2
LITERAL: Final = 3
READ: Final = 3
ALLOW: Final = 3
SHA_256, SHA_512 = 1, 2


def _filter(**said: Any) -> dict[str, Any]:
    fields = {
        "resource_type_filter": TOPIC,
        "resource_name_filter": "t-~",
        "pattern_type_filter": LITERAL,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }
    return fields | said


def _acl(**said: Any) -> dict[str, Any]:
    fields = {
        "resource_type": TOPIC,
        "resource_name": "t-~",
        "resource_pattern_type": LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    }
    return fields | said


ACL_CASES: Final = (
    case(DESCRIBE_ACLS, "without an authorizer", ask(DESCRIBE_ACLS, **_filter())),
    case(
        DESCRIBE_ACLS,
        "unknown kinds",
        ask(DESCRIBE_ACLS, **_filter(resource_type_filter=99)),
        ask(DESCRIBE_ACLS, **_filter(operation=99)),
        ask(DESCRIBE_ACLS, **_filter(permission_type=0)),
        ask(DESCRIBE_ACLS, **_filter(pattern_type_filter=99)),
        ask(DESCRIBE_ACLS, **_filter(resource_type_filter=-1)),
    ),
    case(CREATE_ACLS, "without an authorizer", ask(CREATE_ACLS, creations=[_acl()])),
    case(CREATE_ACLS, "several", ask(CREATE_ACLS, creations=[_acl(), _acl(principal="User:bob")])),
    case(
        CREATE_ACLS,
        "unknown kinds",
        *(
            ask(CREATE_ACLS, creations=[_acl(**{name: value})])
            for name, value in (
                ("resource_type", 99),
                ("operation", 99),
                ("permission_type", ANY),
                ("resource_pattern_type", ANY),
                ("principal", "nobody"),
                ("principal", ""),
            )
        ),
    ),
    case(CREATE_ACLS, "nothing", ask(CREATE_ACLS, creations=[])),
    case(CREATE_ACLS, "null creations", ask(CREATE_ACLS, creations=NULL)),
    case(DELETE_ACLS, "without an authorizer", ask(DELETE_ACLS, filters=[_filter()])),
    case(DELETE_ACLS, "several", ask(DELETE_ACLS, filters=[_filter(), _filter(host_filter="*")])),
    case(
        DELETE_ACLS,
        "unknown kinds",
        *(
            ask(DELETE_ACLS, filters=[_filter(**{name: 99})])
            for name in (
                "resource_type_filter",
                "operation",
                "permission_type",
                "pattern_type_filter",
            )
        ),
    ),
    case(DELETE_ACLS, "nothing", ask(DELETE_ACLS, filters=[])),
    case(DELETE_ACLS, "null filters", ask(DELETE_ACLS, filters=NULL)),
)


TOKEN_CASES: Final = (
    case(CREATE_TOKEN, "over a plain connection", ask(CREATE_TOKEN, renewers=[], max_lifetime=-1)),
    case(
        CREATE_TOKEN,
        "with renewers",
        ask(
            CREATE_TOKEN,
            renewers=[{"principal_type": "User", "principal_name": "alice"}],
            max_lifetime=1000,
        ),
    ),
    case(CREATE_TOKEN, "null renewers", ask(CREATE_TOKEN, renewers=NULL, max_lifetime=-1)),
    case(
        RENEW_TOKEN,
        "over a plain connection",
        ask(RENEW_TOKEN, hmac=b"no token", renew_period=1000),
    ),
    case(RENEW_TOKEN, "without a token", ask(RENEW_TOKEN, hmac=b"", renew_period=-1)),
    case(
        EXPIRE_TOKEN,
        "over a plain connection",
        ask(EXPIRE_TOKEN, hmac=b"no token", expiry_time_period=-1),
    ),
    case(EXPIRE_TOKEN, "without a token", ask(EXPIRE_TOKEN, hmac=b"", expiry_time_period=1000)),
    case(DESCRIBE_TOKEN, "over a plain connection", ask(DESCRIBE_TOKEN, owners=None)),
    case(
        DESCRIBE_TOKEN,
        "of somebody",
        ask(DESCRIBE_TOKEN, owners=[{"principal_type": "User", "principal_name": "alice"}]),
    ),
    case(DESCRIBE_TOKEN, "of nobody", ask(DESCRIBE_TOKEN, owners=[])),
)


def _credential(name: object = "u-~", **said: Any) -> dict[str, Any]:
    salt = b"salt of the test"
    fields = {
        "name": name,
        "mechanism": SHA_256,
        "iterations": 4096,
        "salt": salt,
        "salted_password": hashlib.pbkdf2_hmac("sha256", b"secret", salt, 4096),
    }
    return fields | said


def _upsert(*credentials: dict[str, Any], **said: Any) -> Step:
    return ask(ALTER_SCRAM, **{"deletions": [], "upsertions": credentials, **said})


def _remove(*users: tuple[object, int]) -> Step:
    return ask(ALTER_SCRAM, deletions=[{"name": name, "mechanism": kind} for name, kind in users])


def _users(*names: object) -> Step:
    return ask(DESCRIBE_SCRAM, users=[{"name": name} for name in names])


KNOWN: Final = {"results.0.error_code": 0}
ADDED: Final = (
    given(ALTER_SCRAM, upsertions=[_credential()]),
    given(DESCRIBE_SCRAM, users=[{"name": "u-~"}], until=KNOWN),
)


SCRAM_CASES: Final = (
    case(
        DESCRIBE_SCRAM, "a user", ADDED, ask(DESCRIBE_SCRAM, users=[{"name": "u-~"}], until=KNOWN)
    ),
    case(
        DESCRIBE_SCRAM,
        "all users",
        ADDED,
        ask(DESCRIBE_SCRAM, users=None, own=["results"], until={"error_code": 0}),
    ),
    case(DESCRIBE_SCRAM, "an unknown user", _users("no-~")),
    case(DESCRIBE_SCRAM, "without a name", _users("")),
    case(DESCRIBE_SCRAM, "the same user twice", ADDED, _users("u-~", "u-~")),
    case(DESCRIBE_SCRAM, "nobody", ask(DESCRIBE_SCRAM, users=[], own=["results"])),
    case(DESCRIBE_SCRAM, "null name", _users(NULL)),
    case(ALTER_SCRAM, "a new user", _upsert(_credential())),
    case(
        ALTER_SCRAM,
        "both mechanisms",
        _upsert(_credential(), _credential(mechanism=SHA_512, salted_password=b"x" * 64)),
    ),
    case(
        ALTER_SCRAM,
        "a user goes",
        ADDED,
        _remove(("u-~", SHA_256)),
        ask(DESCRIBE_SCRAM, users=[{"name": "u-~"}], until={"results.0.error_code": 91}),
    ),
    case(ALTER_SCRAM, "an unknown user goes", _remove(("no-~", SHA_256))),
    case(ALTER_SCRAM, "another mechanism goes", ADDED, _remove(("u-~", SHA_512))),
    case(
        ALTER_SCRAM,
        "goes and comes",
        ADDED,
        _upsert(_credential(), deletions=[{"name": "u-~", "mechanism": SHA_256}]),
    ),
    case(ALTER_SCRAM, "comes twice", _upsert(_credential(), _credential())),
    case(
        ALTER_SCRAM,
        "good and bad together",
        _upsert(_credential("a-~"), _credential("b-~", iterations=1)),
    ),
    case(
        ALTER_SCRAM,
        "few and many iterations",
        _upsert(_credential(iterations=4095)),
        _upsert(_credential(iterations=16385)),
        _upsert(_credential(iterations=-1)),
    ),
    case(
        ALTER_SCRAM,
        "unknown mechanisms",
        _upsert(_credential(mechanism=0)),
        _upsert(_credential(mechanism=9)),
        _upsert(_credential(mechanism=-1)),
        _remove(("u-~", 9)),
    ),
    case(ALTER_SCRAM, "without a name", _upsert(_credential("")), _remove(("", SHA_256))),
    case(ALTER_SCRAM, "without a salt", _upsert(_credential(salt=b""))),
    case(ALTER_SCRAM, "without a password", _upsert(_credential(salted_password=b""))),
    case(ALTER_SCRAM, "nothing", _upsert()),
    case(ALTER_SCRAM, "null upsertions", _upsert(upsertions=NULL)),
    case(ALTER_SCRAM, "null name", _upsert(_credential(NULL))),
)

CASES: Final = ACL_CASES + TOKEN_CASES + SCRAM_CASES
