"""The server's side of SCRAM, against the exchange that RFC 7677 prints and a foreign client."""

import base64
import hashlib
import hmac

import pytest
from aiokafka.conn import ScramAuthenticator
from hypothesis import example, given
from hypothesis import strategies as st

from protocol.sasl import AuthenticationFailed, FailureReason
from protocol.sasl_scram import ScramServer
from protocol.scram import ScramCredential, ScramMechanism

SHA_256 = ScramMechanism.SCRAM_SHA_256
ITERATIONS = 4096
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = f"n,,n=user,r={CLIENT_NONCE}".encode()
CHALLENGE = f"r={CLIENT_NONCE}{NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
PROOF = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
LAST = f"c=biws,r={CLIENT_NONCE}{NONCE},p={PROOF}".encode()

names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
passwords = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
mechanisms = st.sampled_from(ScramMechanism)


def credential(
    password: str, mechanism: ScramMechanism = SHA_256, salt: bytes = b"salt", rounds: int = 1
) -> ScramCredential:
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, rounds)
    return ScramCredential.from_salted_password(
        mechanism, salt=salt, salted_password=salted, iterations=rounds
    )


def rfc_server() -> ScramServer:
    """Return the server of RFC 7677's example, after the challenge."""
    server = ScramServer(SHA_256, nonce=NONCE)
    assert server.start(FIRST) == "user"
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    assert server.challenge(credential("pencil", salt=salt, rounds=ITERATIONS)) == CHALLENGE
    return server


def last_message(
    first: bytes, challenge: bytes, password: str, *, binding: str = "biws", nonce: str = ""
) -> bytes:
    """Return the last message of a client that knows the password, and may lie otherwise."""
    fields = dict(part.split("=", 1) for part in challenge.decode().split(","))
    salt, rounds = base64.b64decode(fields["s"]), int(fields["i"])
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, rounds)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    without_proof = f"c={binding},r={nonce or fields['r']}".encode()
    bare = first.split(b",", 2)[2]
    stored_key = hashlib.sha256(client_key).digest()
    signature = hmac.digest(stored_key, b",".join((bare, challenge, without_proof)), "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return without_proof + b",p=" + base64.b64encode(proof)


def refusal_of(first: bytes) -> FailureReason:
    with pytest.raises(AuthenticationFailed) as failed:
        ScramServer(SHA_256, nonce=NONCE).start(first)
    return failed.value.reason


def test_the_exchange_of_rfc_7677_succeeds() -> None:
    assert rfc_server().finish(LAST) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@given(mechanism=mechanisms, user=names, password=passwords, salt=st.binary(min_size=1))
def test_a_foreign_client_gets_in_with_its_password(
    mechanism: ScramMechanism, user: str, password: str, salt: bytes
) -> None:
    # Given a client that nobody here wrote
    client = ScramAuthenticator(
        loop=None,
        sasl_plain_username=user,
        sasl_plain_password=password,
        sasl_mechanism=mechanism.sasl_name,
    )
    server = ScramServer(mechanism, nonce="server-nonce")

    # When it talks to the server
    claimed = server.start(client.first_message().encode())
    challenge = server.challenge(credential(password, mechanism, salt))
    client.process_server_first_message(challenge.decode())
    answer = server.finish(client.final_message().encode())

    # Then both know who the other is
    assert claimed == server.user == user
    client.process_server_final_message(answer.decode())


@given(mechanism=mechanisms, password=passwords, other=passwords)
@example(mechanism=SHA_256, password="pencil", other="pencil\0")
def test_another_password_does_not_let_in(
    mechanism: ScramMechanism, password: str, other: str
) -> None:
    client = ScramAuthenticator(
        loop=None,
        sasl_plain_username="alice",
        sasl_plain_password=other,
        sasl_mechanism=mechanism.sasl_name,
    )
    server = ScramServer(mechanism, nonce="server-nonce")
    server.start(client.first_message().encode())
    client.process_server_first_message(server.challenge(credential(password, mechanism)).decode())
    if other.rstrip("\0") == password.rstrip("\0"):  # HMAC fills up a key with zeros (RFC 2104)
        return
    with pytest.raises(AuthenticationFailed) as failed:
        server.finish(client.final_message().encode())
    assert failed.value.reason is FailureReason.CREDENTIALS
    assert failed.value.user == "alice"
    assert not failed.value.message


def test_an_exchange_that_was_listened_to_cannot_be_repeated() -> None:
    # Given all that a client has sent in the exchange of RFC 7677, and a server with a new nonce
    server = ScramServer(SHA_256, nonce="another")
    server.start(FIRST)
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    server.challenge(credential("pencil", salt=salt, rounds=ITERATIONS))

    # When it is sent again
    with pytest.raises(AuthenticationFailed) as failed:
        server.finish(LAST)

    # Then it is known for what it is
    assert failed.value.reason is FailureReason.REPLAYED


def test_the_nonce_is_checked_even_if_the_proof_fits_another_one() -> None:
    # CVE-2024-56128: a client that knows the password, and answers with a nonce of its own
    server = ScramServer(SHA_256, nonce=NONCE)
    server.start(FIRST)
    challenge = server.challenge(credential("pencil"))
    with pytest.raises(AuthenticationFailed) as failed:
        server.finish(last_message(FIRST, challenge, "pencil", nonce="mine"))
    assert failed.value.reason is FailureReason.REPLAYED


@pytest.mark.parametrize("flag", ["n", "y"])
def test_a_client_without_channel_binding_gets_in(flag: str) -> None:
    first = f"{flag},,n=user,r=abc".encode()
    server = ScramServer(SHA_256, nonce=NONCE)
    server.start(first)
    challenge = server.challenge(credential("pencil"))
    binding = base64.b64encode(f"{flag},,".encode()).decode()
    assert server.finish(last_message(first, challenge, "pencil", binding=binding))


@pytest.mark.parametrize("binding", ["eSws", "", "n,,", "biwsYQ==", "biws="])
def test_the_last_message_must_be_bound_to_the_first(binding: str) -> None:
    server = ScramServer(SHA_256, nonce=NONCE)
    server.start(FIRST)
    challenge = server.challenge(credential("pencil"))
    with pytest.raises(AuthenticationFailed):
        server.finish(last_message(FIRST, challenge, "pencil", binding=binding))


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (b"p=tls-unique,,n=user,r=abc", FailureReason.UNSUPPORTED),
        (b"n,,m=1,n=user,r=abc", FailureReason.UNSUPPORTED),
        (b"n,,n=user,r=abc,tokenauth=true", FailureReason.UNSUPPORTED),
        (b"n,,n=user,r=abc,TokenAuth=true", FailureReason.UNSUPPORTED),
        (b"n,a=admin,n=user,r=abc", FailureReason.AUTHORIZATION_ID),
        (b"n,,n=,r=abc", FailureReason.MALFORMED),
        (b"n,,n=user,r=", FailureReason.MALFORMED),
        (b"n,,n=us=20er,r=abc", FailureReason.MALFORMED),
        (b"n,,n=us=er,r=abc", FailureReason.MALFORMED),
        (b"n,,n=user\0,r=abc", FailureReason.MALFORMED),
        (b"n,,n=\xff,r=abc", FailureReason.MALFORMED),
        (b"n,,n=user,r=a bc", FailureReason.MALFORMED),
        (b"n,,r=abc,n=user", FailureReason.MALFORMED),
        (b"n,,n=user", FailureReason.MALFORMED),
        (b"x,,n=user,r=abc", FailureReason.MALFORMED),
        (b"n,b=user,n=user,r=abc", FailureReason.MALFORMED),
        (b"n=user,r=abc", FailureReason.MALFORMED),
        (b"n,,n=user,r=abc," + b"x=y," * 100 + b"x=y", FailureReason.MALFORMED),
        (b"n,,n=user,r=" + b"a" * 10_000, FailureReason.MALFORMED),
        (b"n,,n=" + b"u" * 1025 + b",r=abc", FailureReason.MALFORMED),
        (b"", FailureReason.MALFORMED),
    ],
)
def test_a_first_message_that_is_none_is_refused(first: bytes, reason: FailureReason) -> None:
    assert refusal_of(first) is reason


def test_extensions_that_mean_nothing_are_part_of_what_is_proven() -> None:
    first = b"n,a=user,n=user,r=abc,x=y"
    server = ScramServer(SHA_256, nonce=NONCE)
    assert server.start(first) == "user"
    challenge = server.challenge(credential("pencil"))
    binding = base64.b64encode(b"n,a=user,").decode()
    assert server.finish(last_message(first, challenge, "pencil", binding=binding))


@given(first=st.binary(max_size=100), last=st.binary(max_size=100))
def test_whatever_comes_only_fails_to_authenticate(first: bytes, last: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        rfc_server().finish(last)
    try:
        ScramServer(SHA_256, nonce=NONCE).start(first)
    except AuthenticationFailed:
        return
    assert first[:1] in b"ny"


@given(st.data())
def test_a_changed_message_never_lets_in(data: st.DataObject) -> None:
    # Given a byte of the good last message that is another one, or none, or two
    at = data.draw(st.integers(0, len(LAST) - 1))
    instead = data.draw(st.binary(max_size=2))
    changed = LAST[:at] + instead + LAST[at + 1 :]
    server = rfc_server()
    if changed == LAST:
        return
    with pytest.raises(AuthenticationFailed):
        server.finish(changed)
