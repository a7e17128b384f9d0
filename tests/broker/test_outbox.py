"""Pieces into a socket: all bytes, in order, never more than it has room for."""

from hypothesis import given
from hypothesis import strategies as st

from broker.network.outbox import BACKLOG_BYTES, PIECE_BYTES, Backlog, Buffer, Outbox

PIECE = 10


class Socket:
    """Is full after each piece, until somebody has read it."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.backlog = Backlog()
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
