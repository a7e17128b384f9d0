"""ACLs and delegation tokens, of which there are none, and SCRAM credentials, over the wire."""

import hashlib
from collections.abc import Iterable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i64Timedelta

from tests.broker.admin.wire import Api, Wire
from tests.support.wire import milliseconds

DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31
CREATE_TOKEN, RENEW_TOKEN, EXPIRE_TOKEN, DESCRIBE_TOKEN = 38, 39, 40, 41
DESCRIBE_SCRAM, ALTER_SCRAM = 50, 51
SHA_256, SHA_512 = 1, 2
TOKEN_REFUSAL = ErrorCode.delegation_token_request_not_allowed

FILTER = {
    "resource_type_filter": 2,
    "resource_name_filter": "topic",
    "pattern_type_filter": 3,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
CREATION = {
    "resource_type": 2,
    "resource_name": "topic",
    "resource_pattern_type": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_without_an_authorizer_there_are_no_acls(wire: Wire, version: int) -> None:
    describe, create, delete = (
        Api(key, version) for key in (DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS)
    )
    creation = create.part("AclCreation", **CREATION)
    one = delete.part("DeleteAclsFilter", **FILTER)

    described = wire.ask(describe.request(**FILTER))
    created = wire.ask(create.request(creations=(creation, creation))).results
    deleted = wire.ask(delete.request(filters=(one,))).filter_results

    assert (len(created), len(deleted)) == (2, 1)
    assert {each.error_code for each in (described, *created, *deleted)} == {
        ErrorCode.security_disabled
    }
    assert all(each.error_message for each in (described, *created, *deleted))
    assert (described.resources, deleted[0].matching_acls) == ((), ())


@pytest.mark.parametrize("field", ["pattern_type_filter", "operation", "permission_type"])
def test_what_a_client_did_not_understand_is_not_asked(wire: Wire, field: str) -> None:
    wrong = FILTER | {field: 0}
    with pytest.raises(EOFError):
        wire.ask(Api(DESCRIBE_ACLS, 3).request(**wrong))
    api = Api(DELETE_ACLS, 3)
    with pytest.raises(EOFError):
        wire.ask(api.request(filters=(api.part("DeleteAclsFilter", **wrong),)))


def test_an_acl_of_an_unknown_kind_is_not_created(wire: Wire) -> None:
    api = Api(CREATE_ACLS, 3)
    creation = api.part("AclCreation", **(CREATION | {"resource_type": 0}))
    with pytest.raises(EOFError):
        wire.ask(api.request(creations=(creation,)))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_who_has_not_logged_in_gets_no_token(wire: Wire, version: int) -> None:
    period = i64Timedelta.parse(milliseconds(1000))
    described = wire.ask(Api(DESCRIBE_TOKEN, version).request(owners=None))
    assert (described.error_code, described.tokens) == (TOKEN_REFUSAL, ())
    create = Api(CREATE_TOKEN, version)
    answers = [
        wire.ask_for_bytes(
            create.request(
                owner_principal_type=None,
                owner_principal_name=None,
                renewers=(),
                max_lifetime=period,
            )
        )
    ]
    if version < 3:
        renewal = Api(RENEW_TOKEN, version).request(hmac=b"x", renew_period=period)
        ending = Api(EXPIRE_TOKEN, version).request(hmac=b"x", expiry_time_period=period)
        answers += [wire.ask_for_bytes(renewal), wire.ask_for_bytes(ending)]
    for answer in answers:  # the test's codec reads no times before 1970, and -1 is one
        assert int.from_bytes(answer[:2]) == TOKEN_REFUSAL.value
        assert b"\xff" * 8 in answer


def upsertion(api: Api, user: str, mechanism: int = SHA_256, **values: Any) -> Any:
    salted = hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 4096)
    wanted = {"iterations": 4096, "salt": b"salt", "salted_password": salted} | values
    return api.part("ScramCredentialUpsertion", name=user, mechanism=mechanism, **wanted)


def deletion(api: Api, user: str, mechanism: int = SHA_256) -> Any:
    return api.part("ScramCredentialDeletion", name=user, mechanism=mechanism)


SCRAM = Api(ALTER_SCRAM, 0)


def alter(
    wire: Wire, *, deletions: Iterable[Any] = (), upsertions: Iterable[Any] = ()
) -> dict[str, ErrorCode]:
    request = SCRAM.request(deletions=tuple(deletions), upsertions=tuple(upsertions))
    results = wire.ask(request).results
    assert all(
        (each.error_message is None) == (each.error_code is ErrorCode.none) for each in results
    )
    return {each.user: each.error_code for each in results}


def described(wire: Wire, *users: str) -> dict[str, ErrorCode | dict[int, int]]:
    """Return each user's iterations by mechanism, or why not; of all users if none is named."""
    api = Api(DESCRIBE_SCRAM, 0)
    names = tuple(api.part("UserName", name=user) for user in users) or None
    answer = wire.ask(api.request(users=names))
    assert answer.error_code is ErrorCode.none
    return {
        each.user: {info.mechanism: info.iterations for info in each.credential_infos}
        or each.error_code
        for each in answer.results
    }


def test_credentials_are_set_and_deleted(wire: Wire, name: str) -> None:
    # Given a user with two credentials, set at once
    both = [upsertion(SCRAM, name), upsertion(SCRAM, name, SHA_512, iterations=8192)]
    assert alter(wire, upsertions=both) == {name: ErrorCode.none}
    assert described(wire, name) == {name: {SHA_256: 4096, SHA_512: 8192}}

    # When one is changed and one is deleted
    changed = upsertion(SCRAM, name, iterations=16384)
    altered = alter(wire, deletions=[deletion(SCRAM, name, SHA_512)], upsertions=[changed])

    # Then that is how they are, also among those of all users
    assert altered == {name: ErrorCode.none}
    assert described(wire, name) == {name: {SHA_256: 16384}}
    assert described(wire)[name] == {SHA_256: 16384}

    # And without the last one there is no such user
    assert alter(wire, deletions=[deletion(SCRAM, name)]) == {name: ErrorCode.none}
    assert described(wire, name) == {name: ErrorCode.resource_not_found}
    assert name not in described(wire)


def test_each_user_answers_for_itself(wire: Wire, name: str) -> None:
    good, weak, missing = f"{name}-good", f"{name}-weak", f"{name}-missing"
    answered = alter(
        wire,
        deletions=[deletion(SCRAM, missing)],
        upsertions=[upsertion(SCRAM, good), upsertion(SCRAM, weak, iterations=4095)],
    )
    assert answered == {
        good: ErrorCode.none,
        weak: ErrorCode.unacceptable_credential,
        missing: ErrorCode.resource_not_found,
    }
    assert described(wire, good, weak) == {
        good: {SHA_256: 4096},
        weak: ErrorCode.resource_not_found,
    }


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"iterations": 16385}, ErrorCode.unacceptable_credential),
        ({"iterations": -1}, ErrorCode.unacceptable_credential),
        ({"salt": b""}, ErrorCode.unacceptable_credential),
        ({"salt": bytes(1025)}, ErrorCode.unacceptable_credential),
        ({"salted_password": b""}, ErrorCode.unacceptable_credential),
        ({"mechanism": 0}, ErrorCode.unsupported_sasl_mechanism),
        ({"mechanism": 3}, ErrorCode.unsupported_sasl_mechanism),
    ],
)
def test_all_of_a_user_is_altered_or_nothing(
    wire: Wire, name: str, values: dict[str, Any], code: ErrorCode
) -> None:
    wrong = upsertion(SCRAM, name, **({"mechanism": SHA_512} | values))
    assert alter(wire, upsertions=[upsertion(SCRAM, name), wrong]) == {name: code}
    assert described(wire, name) == {name: ErrorCode.resource_not_found}


@pytest.mark.parametrize("user", ["", "x" * 1025], ids=["empty", "long"])
def test_a_name_that_cannot_be_is_refused(wire: Wire, user: str) -> None:
    assert alter(wire, upsertions=[upsertion(SCRAM, user)]) == {
        user: ErrorCode.unacceptable_credential
    }


def test_what_is_named_twice_is_refused(wire: Wire, name: str) -> None:
    twice = {name: ErrorCode.duplicate_resource}
    one, gone = upsertion(SCRAM, name), deletion(SCRAM, name)
    assert alter(wire, upsertions=[one, one]) == twice
    assert alter(wire, deletions=[gone], upsertions=[one]) == twice
    assert alter(wire, deletions=[gone, gone]) == twice
    assert alter(wire, upsertions=[one]) == {name: ErrorCode.none}
    assert described(wire, name, name) == twice


def test_nothing_is_altered_if_nobody_is_named(wire: Wire) -> None:
    assert alter(wire) == {}
