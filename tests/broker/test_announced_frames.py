"""A frame that is announced: it costs what has come of it, and nobody keeps others from memory."""

import asyncio
import tracemalloc
from unittest.mock import patch

from broker.network.frame_intake import HOARDED_FRAME_S, FrameIntake
from broker.network.memory import MemoryBudget
from protocol.framing import FIRST_BYTES, FrameBuffer

MIB = 2**20
MOST = 100 * MIB


def feed(buffer: FrameBuffer, data: bytes) -> list[bytearray]:
    """Have bytes arrive as far as there is room for them at a time."""
    frames: list[bytearray] = []
    while data:
        with buffer.get_buffer() as room:
            count = min(len(room), len(data))
            room[:count] = data[:count]
        data = data[count:]
        frames += buffer.received(count)
        if buffer.announced:
            buffer.admit()
    return frames


class Peer:
    """What would be at the other end of the socket.

    Attributes:
        left: bytes of the announced frame that are not sent yet.
        most_used: of the memory, whenever something was sent.
    """

    def __init__(self, memory: MemoryBudget) -> None:
        self._memory = memory
        self._is_read = True
        self._unsent = b""
        self.left = 0
        self.most_used = 0
        self.intake = FrameIntake(memory, max_frame_bytes=MOST, set_reading=self._set_reading)

    def announce(self, size: int, count: int) -> None:
        """Send the head of a frame, and so many bytes of it."""
        self.left = size - count
        self._unsent = size.to_bytes(4) + bytes(count)
        self._deliver()

    def send(self, size: int) -> None:
        """Send a whole frame."""
        self.announce(size, size)

    def go_on(self) -> None:
        """Send some more of the frame."""
        count = min(self.left, 256 * 1024)
        self.left -= count
        self._unsent += bytes(count)
        self._deliver()

    def _deliver(self) -> None:
        while self._unsent and self._is_read:
            with self.intake.buffer.get_buffer() as room:
                count = min(len(room), len(self._unsent))
                room[:count] = self._unsent[:count]
            self._unsent = self._unsent[count:]
            self.intake.received(count)
            self.most_used = max(self.most_used, self._memory.used_bytes)

    def _set_reading(self, reading: bool) -> None:
        self._is_read = reading


def test_who_announces_much_and_sends_little_costs_little() -> None:
    # Given many peers
    scratch = bytearray(256 * 1024)
    peers = [FrameBuffer(scratch, max_frame_bytes=MOST) for _ in range(20)]
    tracemalloc.start()
    try:
        # When each announces the largest frame, and sends a kilobyte of it
        for peer in peers:
            feed(peer, MOST.to_bytes(4) + bytes(1000))

        # Then they take kilobytes, not gigabytes
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()


def test_a_frame_is_whole_however_its_memory_grew() -> None:
    buffer = FrameBuffer(bytearray(256 * 1024), max_frame_bytes=MOST)
    for size in (3 * MIB + 1, 65_537, 5 * MIB, 10):
        content = bytes(range(251)) * (size // 251 + 1)
        frames = feed(buffer, size.to_bytes(4) + content[:size])
        assert [bytes(frame) for frame in frames] == [content[:size]]


def test_who_has_sent_a_frame_whole_gets_its_memory_at_once() -> None:
    buffer = FrameBuffer(bytearray(256 * 1024), max_frame_bytes=MOST)
    feed(buffer, MIB.to_bytes(4) + bytes(MIB))
    feed(buffer, MIB.to_bytes(4) + bytes(100))
    assert len(buffer.get_buffer()) == MIB - 100


async def test_a_connection_that_ends_lets_go_of_its_unfinished_frame() -> None:
    memory = MemoryBudget(256 * MIB)
    one = Peer(memory)
    one.announce(MOST, 300 * 1024)
    assert 300 * 1024 < memory.used_bytes < MIB
    one.intake.end()
    assert memory.used_bytes == 0
    assert not one.intake.buffer.partial
    assert one.intake.buffer.expected_bytes == 0


async def test_who_is_not_trusted_takes_no_memory_ahead_either() -> None:
    # Given a peer that has not logged in, and may send large frames all the same
    memory = MemoryBudget(256 * MIB)
    early = Peer(memory)
    early.intake.buffer.distrust(MOST)

    # When it announces the largest, then that is counted as it comes, and no more is allocated
    early.announce(MOST, 0)
    assert memory.used_bytes == len(early.intake.buffer.get_buffer()) == FIRST_BYTES
    while early.left > MIB:
        early.go_on()
        assert memory.used_bytes <= 2 * (MOST - early.left)
        counted = early.intake.buffer.received_bytes + len(early.intake.buffer.get_buffer())
        assert memory.used_bytes == counted

    # And when it is trusted meanwhile, then the frame comes whole all the same
    early.intake.buffer.trust(MOST)
    while early.left:
        early.go_on()
    assert [len(frame) for frame in early.intake.queue] == [MOST]
    assert memory.used_bytes == MOST


async def test_who_only_announces_keeps_nobody_from_sending() -> None:
    # Given many who have announced the largest frame, more than fit together
    memory = MemoryBudget(256 * MIB)
    for _ in range(1000):
        Peer(memory).announce(MOST, 1000)

    # When somebody sends a frame of a megabyte
    good = Peer(memory)
    good.send(MIB)

    # Then it is there
    assert [len(frame) for frame in good.intake.queue] == [MIB]


async def test_frames_that_fill_the_memory_are_finished_one_by_one() -> None:
    # Given a memory full of unfinished frames
    memory = MemoryBudget(8 * MIB)
    peers = [Peer(memory) for _ in range(10)]
    for peer in peers:
        peer.announce(3 * MIB, MIB)

    # When all of them send on as far as they are read
    for _ in range(100):
        for peer in peers:
            peer.go_on()
            while peer.intake.queue:
                peer.intake.pop()[1].give_back()

    # Then each frame came, there was never much more than the limit, and nothing is left
    assert [peer.left for peer in peers] == [0] * 10
    assert memory.used_bytes == 0
    assert max(peer.most_used for peer in peers) <= 8 * MIB + 3 * MIB


async def test_who_keeps_memory_that_others_wait_for_must_send() -> None:
    # Given a frame that has begun
    memory = MemoryBudget(MIB)
    first = Peer(memory)
    first.announce(MOST, 600 * 1024)
    later_s = asyncio.get_running_loop().time() + HOARDED_FRAME_S + 1

    # When nothing more comes of it for some seconds, Then this matters only if somebody waits
    assert first.intake.stall_s(later_s) == 0
    second = Peer(memory)
    second.announce(MOST, 1000)
    assert first.intake.stall_s(later_s) > HOARDED_FRAME_S
    assert second.intake.stall_s(later_s) == 0

    # And who sends fast enough may go on
    with patch.object(FrameBuffer, "received_bytes", MOST // 2):
        assert first.intake.stall_s(later_s) == 0
