"""SCRAM credentials, against the exchanges that RFC 5802's successors print."""

import hashlib
import hmac
from base64 import b64decode, b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.scram import ScramCredential, ScramMechanism

PASSWORD = b"pencil"
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
ITERATIONS = 4096
AUTH_MESSAGE = ",".join(
    (
        "n=user,r=rOprNGfwEbeRWgbNEkqO",
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        f"s={b64encode(SALT).decode()}",
        f"i={ITERATIONS}",
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
    )
).encode()
PROOF = b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
SERVER_SIGNATURE = b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")

keys = st.binary(min_size=1, max_size=64)


def test_a_credential_checks_the_exchange_of_rfc_7677() -> None:
    # Given what a client sends to set the password of the RFC's example
    salted = hashlib.pbkdf2_hmac("sha256", PASSWORD, SALT, ITERATIONS)
    credential = ScramCredential.from_salted_password(
        ScramMechanism.SCRAM_SHA_256, salt=SALT, salted_password=salted, iterations=ITERATIONS
    )

    # When the client of the example proves that it knows the password
    signature = hmac.digest(credential.stored_key, AUTH_MESSAGE, "sha256")
    client_key = bytes(a ^ b for a, b in zip(PROOF, signature, strict=True))

    # Then its key is the one that is stored, and the server's answer is the one that is printed
    assert hashlib.sha256(client_key).digest() == credential.stored_key
    assert hmac.digest(credential.server_key, AUTH_MESSAGE, "sha256") == SERVER_SIGNATURE


@given(salt=keys, stored_key=keys, server_key=keys, iterations=st.integers(1, 2**31 - 1))
def test_what_is_stored_is_read_again(
    salt: bytes, stored_key: bytes, server_key: bytes, iterations: int
) -> None:
    credential = ScramCredential(
        salt=salt, stored_key=stored_key, server_key=server_key, iterations=iterations
    )
    assert ScramCredential.decode(credential.encode()) == credential


@pytest.mark.parametrize("text", ["", "salt=YQ==", "iterations=x,salt=,stored_key=,server_key=%"])
def test_what_is_no_credential_is_not_read(text: str) -> None:
    with pytest.raises(ValueError, match="a stored SCRAM credential cannot be read"):
        ScramCredential.decode(text)


def test_a_credential_shows_no_key() -> None:
    credential = ScramCredential(salt=b"s", stored_key=b"one", server_key=b"two", iterations=1)
    assert "one" not in repr(credential)
    assert "two" not in repr(credential)


@pytest.mark.parametrize(
    ("mechanism", "name", "size"),
    [(1, "SCRAM-SHA-256", 32), (2, "SCRAM-SHA-512", 64)],
)
def test_mechanisms_have_their_numbers_names_and_hashes(
    mechanism: int, name: str, size: int
) -> None:
    known = ScramMechanism(mechanism)
    assert known.sasl_name == name
    credential = ScramCredential.from_salted_password(
        known, salt=b"s", salted_password=b"p", iterations=4096
    )
    assert len(credential.stored_key) == len(credential.server_key) == size
