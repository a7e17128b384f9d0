"""PLAIN and OAUTHBEARER: what clients may send, and that nothing else gets further."""

import pytest
from aiokafka.conn import OAuthAuthenticator
from hypothesis import example, given
from hypothesis import strategies as st

from protocol.sasl import AuthenticationFailed, FailureReason, check_authorization_id
from protocol.sasl_oauthbearer import read_oauthbearer
from protocol.sasl_plain import read_plain

TOKEN = "eyJhbGciOiJSUzI1NiJ9.e30.c2ln"
names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
passwords = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
extension_names = st.from_regex(r"[A-Za-z]+", fullmatch=True).filter(lambda name: name != "auth")
extension_values = st.from_regex(r"[\x21-\x7e \t\r\n]+", fullmatch=True)


@given(authorization_id=names | st.just(""), user=names, password=passwords)
def test_plain_is_three_parts(authorization_id: str, user: str, password: str) -> None:
    login = read_plain(f"{authorization_id}\0{user}\0{password}".encode())
    assert (login.authorization_id, login.user) == (authorization_id, user)
    assert login.password == password.encode()


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"alice",
        b"\0alice",
        b"\0\0",
        b"\0alice\0",
        b"\0\0secret",
        b"\0alice\0secret\0",
        b"\0\xff\0secret",
        b"\xff\0alice\0secret",
        b"\0alice\0\xff",
        b"\0" + b"a" * 1025 + b"\0secret",
        b"\0alice\0" + b"s" * 4097,
    ],
)
def test_what_is_not_three_parts_is_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed) as failed:
        read_plain(message)
    assert failed.value.reason is FailureReason.MALFORMED
    assert "secret" not in f"{failed.value!r}{failed.value}{failed.value.message}"


@given(st.binary(max_size=200))
def test_whatever_comes_is_a_login_or_a_failure(message: bytes) -> None:
    for read in (read_plain, read_oauthbearer):
        try:
            read(message)
        except AuthenticationFailed:
            continue


def test_nobody_acts_as_somebody_else() -> None:
    check_authorization_id("", "alice")
    check_authorization_id("alice", "alice")
    with pytest.raises(AuthenticationFailed) as failed:
        check_authorization_id("admin", "alice")
    assert (failed.value.reason, failed.value.user) == (FailureReason.AUTHORIZATION_ID, "alice")


def test_a_password_is_in_no_text() -> None:
    assert "s3cret" not in repr(read_plain(b"\0alice\0s3cret"))
    assert TOKEN not in repr(read_oauthbearer(b"n,,\x01auth=Bearer %b\x01\x01" % TOKEN.encode()))


class Provider:
    """What aiokafka asks for a token."""

    def __init__(self, extensions: dict[str, str]) -> None:
        self._extensions = extensions

    async def token(self) -> str:
        return TOKEN

    def extensions(self) -> dict[str, str]:
        return self._extensions


@given(extensions=st.dictionaries(extension_names, extension_values, max_size=5))
@example(extensions={})
async def test_a_foreign_client_is_understood(extensions: dict[str, str]) -> None:
    client = OAuthAuthenticator(sasl_oauth_token_provider=Provider(extensions))
    step = await client.step(b"")
    assert step is not None
    login = read_oauthbearer(step[0])
    assert (login.token, login.extensions, login.authorization_id) == (TOKEN, extensions, "")


@pytest.mark.parametrize(
    ("header", "authorization_id"), [("n,,", ""), ("y,,", ""), ("n,a=al=2Cice,", "al,ice")]
)
def test_the_header_says_whom_a_client_wants_to_act_as(header: str, authorization_id: str) -> None:
    message = f"{header}\x01host=h\x01auth=bearer {TOKEN}\x01port=1\x01\x01".encode()
    login = read_oauthbearer(message)
    assert login.authorization_id == authorization_id
    assert login.extensions == {"host": "h", "port": "1"}


@pytest.mark.parametrize(
    "message",
    [
        "",
        "\x01",
        "n,,",
        "n,,\x01\x01",
        "n,,\x01auth=\x01\x01",
        "n,,\x01auth=Basic abc\x01\x01",
        "n,,\x01auth=Bearer \x01\x01",
        "n,,\x01auth=Bearer a b\x01\x01",
        f"n,,\x01auth=Bearer {TOKEN}\x01",
        f"n,,auth=Bearer {TOKEN}\x01\x01",
        f"n,,\x01auth=Bearer {TOKEN}\x01auth=Bearer {TOKEN}\x01\x01",
        f"n,,\x01auth=Bearer {TOKEN}\x01a=1\x01a=2\x01\x01",
        f"n,,\x01auth=Bearer {TOKEN}\x01a1=1\x01\x01",
        f"n,,\x01auth=Bearer {TOKEN}\x01a=\x01\x01",
        f"n,,\x01auth=Bearer {TOKEN}\x01a=\x02\x01\x01",
        f"n,,\x01auth=Bearer {TOKEN}\x01" + "a=1\x01" * 100 + "\x01",
        f"p=tls-unique,,\x01auth=Bearer {TOKEN}\x01\x01",
        f"x,,\x01auth=Bearer {TOKEN}\x01\x01",
        f"n,a=,\x01auth=Bearer {TOKEN}\x01\x01",
    ],
)
def test_a_first_message_that_is_none_is_refused(message: str) -> None:
    with pytest.raises(AuthenticationFailed):
        read_oauthbearer(message.encode())
