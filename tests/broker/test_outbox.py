"""Pieces into a socket: all bytes, in order, never more than it has room for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.network.outbox import (
    BACKLOG_BYTES,
    PIECE_BYTES,
    PINNED_BYTES,
    Backlog,
    Buffer,
    Outbox,
)

PIECE = 10


class Socket:
    """Is full after each piece, until somebody has read it."""

    def __init__(self, backlog: Backlog | None = None) -> None:
        self.pieces: list[bytes] = []
        self.backlog = backlog or Backlog()
        self.outbox = Outbox(self._write, piece_bytes=PIECE, backlog=self.backlog)

    def _write(self, piece: list[Buffer]) -> None:
        self.pieces.append(b"".join(piece))
        self.outbox.is_blocked = len(self.pieces[-1]) >= PIECE

    def read(self) -> None:
        self.outbox.is_blocked = False
        self.outbox.push()


@given(st.lists(st.tuples(st.lists(st.binary(max_size=35)), st.booleans())))
def test_all_goes_out_in_order_and_in_pieces(steps: list[tuple[list[bytes], bool]]) -> None:
    # When answers come, and the peer reads now and then
    socket = Socket()
    for at, (answer, reads) in enumerate(steps):
        before = len(socket.pieces)
        socket.outbox.add(answer)
        assert len([piece for piece in socket.pieces[before:] if len(piece) >= PIECE]) <= 1
        if reads:
            socket.read()
        given = sum(map(len, socket.pieces))
        answered = sum(len(buffer) for answer, _ in steps[: at + 1] for buffer in answer)
        assert socket.backlog.bytes == answered - given  # what waits is counted
    while socket.outbox:
        socket.read()

    # Then it gets all of it
    sent = b"".join(b"".join(answer) for answer, _ in steps)
    assert b"".join(socket.pieces) == sent
    assert all(len(piece) <= PIECE for piece in socket.pieces)
    assert socket.backlog.bytes == 0


def test_nothing_is_left_once_it_is_cleared() -> None:
    socket = Socket()
    socket.outbox.add([bytes(100)])
    assert socket.backlog.bytes == 90
    socket.outbox.clear()
    socket.read()
    assert len(socket.pieces) == 1
    assert socket.backlog.bytes == 0


def test_the_more_waits_the_smaller_are_answers() -> None:
    backlog = Backlog()
    assert backlog.room() == BACKLOG_BYTES
    backlog.bytes = BACKLOG_BYTES - 2 * PIECE_BYTES
    assert backlog.room() == 2 * PIECE_BYTES
    backlog.bytes = 2 * BACKLOG_BYTES
    assert backlog.room() == PIECE_BYTES


def test_memory_that_small_parts_hold_on_to_counts_once() -> None:
    # Given two peers that read nothing more, for whom parts of the same memory wait
    backlog = Backlog()
    sockets = [Socket(backlog), Socket(backlog)]
    whole = memoryview(bytearray(100))
    for socket in sockets:
        socket.outbox.add([whole[:PIECE], whole[50:55]])

    # Then it counts once, in whatever number of parts; what is hardly more than its part does not
    assert backlog.pinned_bytes == 100
    sockets[0].outbox.add([memoryview(bytearray(50))[:30], bytes(3)])
    assert backlog.pinned_bytes == 100

    # When one of them has read all of it, then it still counts; and when the other is gone, no more
    while sockets[0].outbox or sockets[0].outbox.is_blocked:
        sockets[0].read()
    assert backlog.pinned_bytes == 100
    sockets[1].outbox.close()
    assert backlog.pinned_bytes == 0


def test_once_much_is_held_on_to_small_parts_are_copied() -> None:
    # Given a peer for whom a little of much memory waits
    backlog = Backlog()
    Socket(backlog).outbox.add([memoryview(bytearray(PINNED_BYTES + 1))[:PIECE]])

    # When others get parts of something
    other = Socket(backlog)
    wholes = bytearray(b"a" * 100), bytearray(b"b" * 39)
    other.outbox.add([memoryview(whole)[:20] for whole in wholes])

    # Then a small one holds on to nothing (what has a view of it cannot grow), a large one does
    wholes[0].append(0)
    with pytest.raises(BufferError):
        wholes[1].append(0)
    while other.outbox:
        other.read()
    assert b"".join(other.pieces) == b"a" * 20 + b"b" * 20
