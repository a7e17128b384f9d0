"""TLS in memory: what a peer sends comes out, however it comes in; what is no data is limited."""

import ssl
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

import pytest

from broker.network.tls_stream import (
    DATA_FOR_ONE_WITHOUT,
    MOST_WITHOUT_DATA,
    RECORDS_AT_ONCE,
    TlsStream,
)
from protocol.errors import MalformedRequest
from tests.support.certificates import make_authority
from tests.support.tls_client import ClientRecords, begin_tls

ROOM: Final = memoryview(bytearray(256 * 1024))
KEY_UPDATE_BYTES: Final = 27


class Pair:
    """A broker's end, and what a client sends to it once they have shaken hands."""

    def __init__(self, home: Path) -> None:
        authority = make_authority()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority.issue().write_keystore(home / "keystore.pem"))
        trusting = ssl.create_default_context(cadata=authority.certificate_pem().decode())
        client, incoming, outgoing = begin_tls(trusting, home / "keys")
        self.stream = TlsStream(context)
        for _ in range(2):
            with suppress(ssl.SSLWantReadError):
                client.do_handshake()
            self.stream.feed(memoryview(outgoing.read()))
            self.stream.shake_hands()
            incoming.write(self.stream.take_outgoing())
        self.client = ClientRecords(home / "keys")

    def give(self, data: bytes) -> bytes:
        """Return what comes out."""
        self.stream.feed(memoryview(data))
        return bytes(ROOM[: self.stream.read_into(ROOM)])


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


@pytest.mark.parametrize("seed", range(5))
def test_what_comes_out_does_not_depend_on_how_it_comes_in(pair: Pair, seed: int) -> None:
    # Given records of all sizes, more than are taken at once, with new keys among them
    rng = Random(seed)
    contents = [rng.randbytes(rng.choice((1, 5, 300, 16_384))) for _ in range(5 * RECORDS_AT_ONCE)]
    sent = b""
    for at, content in enumerate(contents):
        sent += pair.client.data(content) + (pair.client.key_update() if at % 10 == 0 else b"")

    # When they come in pieces
    received = b""
    while sent:
        size = rng.choice((1, 4, 6, 1000, 65_536))
        received += pair.give(sent[:size])
        sent = sent[size:]

    # Then what comes out is what was sent
    assert received == b"".join(contents)


def test_who_only_changes_keys_is_refused_at_once(pair: Pair) -> None:
    # Given a client that sends nothing but new keys, as many as come at a time
    sent = b"".join(pair.client.key_update() for _ in range(65_536 // KEY_UPDATE_BYTES))

    # When they come, then it is refused, and few of them have cost anything
    with pytest.raises(MalformedRequest, match="records of TLS have no data"):
        pair.give(sent)
    answered = len(pair.stream.take_outgoing()) // KEY_UPDATE_BYTES
    assert answered <= MOST_WITHOUT_DATA + RECORDS_AT_ONCE


def test_a_little_data_among_them_does_not_help(pair: Pair) -> None:
    each = (pair.client.key_update() + pair.client.data(b"?") for _ in range(MOST_WITHOUT_DATA + 2))
    with pytest.raises(MalformedRequest):
        pair.give(b"".join(each))


def test_who_changes_keys_now_and_then_is_served_for_ever(pair: Pair) -> None:
    for _ in range(2 * MOST_WITHOUT_DATA):
        sent = b"".join(pair.client.data(b"?") for _ in range(DATA_FOR_ONE_WITHOUT))
        assert len(pair.give(sent + pair.client.key_update())) == DATA_FOR_ONE_WITHOUT
