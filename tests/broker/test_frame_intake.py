"""When a peer's socket is read, and what memory is taken for it: without a socket."""

import pytest

from broker.network.frame_intake import MAX_QUEUED_FRAMES, FrameIntake
from broker.network.memory import MemoryBudget
from protocol.framing import LARGE_FRAME_BYTES

KIB = 1024
LARGE = 100 * KIB


class Peer:
    """What would be at the other end of the socket."""

    def __init__(self, memory: MemoryBudget) -> None:
        self._is_read = True
        self.intake = FrameIntake(memory, max_frame_bytes=2**20, set_reading=self._set_reading)

    def send(self, *sizes: int, unfinished: int = 0) -> None:
        """Have frames of these sizes arrive, and the head of another one."""
        data = b"".join(size.to_bytes(4) + bytes(size) for size in sizes)
        if unfinished:
            data += unfinished.to_bytes(4)
        self.send_bytes(data)

    def send_bytes(self, data: bytes) -> None:
        while data:
            assert self._is_read
            room = self.intake.buffer.get_buffer()
            count = min(len(room), len(data))
            room[:count] = data[:count]
            data = data[count:]
            self.intake.received(count)

    def is_read(self) -> bool:
        return self._is_read

    def begin(self) -> None:
        """Take a frame as the connection does; it is answered at once."""
        self.intake.pop()[1].give_back()
        self.intake.read_on()

    def _set_reading(self, reading: bool) -> None:
        assert reading != self._is_read, "the socket is told only what is new"
        self._is_read = reading


async def test_it_reads_until_enough_wait_and_again_when_half_of_them_have_begun() -> None:
    peer = Peer(MemoryBudget(-1))
    peer.send(*[10] * MAX_QUEUED_FRAMES)
    states = []
    for _ in range(MAX_QUEUED_FRAMES):
        states.append(peer.is_read())
        peer.begin()
    half = MAX_QUEUED_FRAMES // 2
    assert states == [False] * half + [True] * half


async def test_a_large_frame_behind_too_many_takes_no_memory_until_it_is_read() -> None:
    # Given a peer of whose requests one is read ahead, with the head of a large one behind it
    memory = MemoryBudget(-1)
    peer = Peer(memory)
    peer.intake.read_ahead(1)
    peer.send(10, unfinished=LARGE)
    assert memory.used_bytes == 10
    assert not peer.is_read()

    # When the first has begun, then the large one is read
    peer.begin()
    assert peer.is_read()
    assert memory.used_bytes == LARGE_FRAME_BYTES  # it grows with what comes of it


async def test_who_is_paused_takes_no_memory_from_those_who_wait() -> None:
    # Given memory that is taken, and two peers that wait for it
    memory = MemoryBudget(LARGE)
    memory.take(LARGE)
    first, second = Peer(memory), Peer(memory)
    first.send(unfinished=LARGE)
    second.send(unfinished=LARGE)

    # When the first is paused, then the second has what becomes free
    first.intake.pause()
    memory.give_back(LARGE)
    assert (first.is_read(), second.is_read()) == (False, True)

    # And the first asks again when it goes on
    first.intake.resume()
    assert not first.is_read()
    second.intake.end()
    assert first.is_read()
    assert memory.used_bytes == LARGE_FRAME_BYTES


async def test_a_peer_waits_for_room_once_however_often_it_is_asked_to_read_on() -> None:
    # Given a peer whose frames have used up the memory
    memory = MemoryBudget(100)
    peer = Peer(memory)
    peer.send(40, 40, 40)
    assert not peer.is_read()

    # When it is told to read on before there is any, then it does so once there is
    for _ in range(3):
        peer.intake.read_on()
    assert not peer.is_read()
    peer.begin()
    assert peer.is_read()


async def test_the_clocks_of_a_peer_stand_still_while_it_is_not_read() -> None:
    # Given a peer with an unfinished frame that is not read for a long time
    peer = Peer(MemoryBudget(-1))
    peer.send(unfinished=10)
    peer.intake.pause()
    now_s = peer.intake.last_read_s
    peer.intake.last_read_s -= 600
    peer.intake.frame_since_s -= 600

    # When it is read again, then it has the usual time to go on
    peer.intake.resume()
    assert peer.intake.last_read_s >= now_s
    assert peer.intake.stall_s(now_s + 30) == 0
    assert peer.intake.stall_s(now_s + 60) > 30


async def test_after_the_end_nothing_is_read_and_nothing_is_held() -> None:
    memory = MemoryBudget(-1)
    peer = Peer(memory)
    peer.send(10, 10, unfinished=LARGE)
    peer.intake.end()
    peer.intake.resume()
    peer.intake.read_on()
    assert not peer.is_read()
    assert not peer.intake.queue
    assert memory.used_bytes == 0
    peer.intake.end()
    assert memory.used_bytes == 0


@pytest.mark.parametrize("begun", [0, 10, LARGE_FRAME_BYTES - 10])
async def test_who_is_muted_holds_no_memory_for_what_has_not_come(begun: int) -> None:
    # Given peers that have begun large frames, for which all memory is taken
    memory = MemoryBudget(3 * LARGE_FRAME_BYTES)
    muted = [Peer(memory) for _ in range(3)]
    for peer in muted:
        peer.send(unfinished=LARGE)
        peer.send_bytes(b"x" * begun)
    other = Peer(memory)
    other.send(10)
    assert (memory.has_room(appends=True), other.is_read()) == (False, False)

    # When they are muted, then others have the memory
    for peer in muted:
        peer.intake.pause()
    assert (memory.used_bytes, other.is_read()) == (3 * begun + 10, True)
    other.begin()

    # And when they may go on, their frames come whole
    for peer in muted:
        peer.intake.resume()
        peer.send_bytes(b"y" * (LARGE - begun))
        assert list(peer.intake.queue) == [b"x" * begun + b"y" * (LARGE - begun)]
        peer.begin()
    assert memory.used_bytes == 0
