"""Upkeep keeps still while its machine is busy, for a while."""

import asyncio
from pathlib import Path

import pytest

from broker.upkeep import spare_processors
from broker.upkeep.spare_processors import (
    COMES_BACK,
    LOOK_S,
    SpareProcessors,
    UnhurriedStore,
    idle_s,
)
from tests.support import virtual_time
from tests.support.fakes.objects import MemoryStore

PATIENCE_S = 60.0


class Machine:
    """Two processors, of which others have some and this process some.

    Attributes:
        others: processors that others keep busy.
        own: that this process keeps busy.
    """

    def __init__(self, processors: int = 2) -> None:
        self.processors = processors
        self.others = 0.0
        self.own = 0.0
        self.now_s = self.idle_s = self.own_s = 0.0
        self.spare = SpareProcessors(
            PATIENCE_S,
            processors=processors,
            idle_s=lambda: self.idle_s,
            own_s=lambda: self.own_s,
            clock=lambda: self.now_s,
        )

    def go_on(self, seconds: float) -> None:
        self.now_s += seconds
        self.idle_s += (self.processors - self.others - self.own) * seconds
        self.own_s += self.own * seconds

    def works(self, seconds: float) -> list[bool]:
        """Ask all the time; return the answers, one for each LOOK_S."""
        answers = []
        for _ in range(round(seconds / LOOK_S)):
            self.go_on(LOOK_S * 1.001)
            answers.append(self.spare.may_work())
        return answers


def test_what_is_idle_is_worked_with_and_what_is_busy_is_left_alone() -> None:
    machine = Machine()
    for others, expected in ((0.0, True), (1.2, True), (1.3, False), (2.0, False), (1.0, True)):
        machine.others = others
        assert machine.works(1.0) == [expected] * 10


def test_its_own_work_is_none_of_others() -> None:
    machine = Machine()
    machine.others, machine.own = 1.0, 1.0
    assert machine.works(1.0) == [True] * 10


@pytest.mark.parametrize(("processors", "others", "expected"), [(1, 0.7, False), (1, 0.6, True)])
def test_one_processor_need_not_be_idle(processors: int, others: float, expected: bool) -> None:
    machine = Machine(processors)
    machine.others = others
    assert machine.works(1.0) == [expected] * 10


def test_patience_has_an_end_and_comes_back() -> None:
    machine = Machine()
    machine.others = 2.0

    # When the machine is always busy, then it keeps still for a minute
    assert not any(machine.works(PATIENCE_S - 1))

    # And from then on works four fifths of the time
    machine.works(2)
    answers = machine.works(60)
    assert sum(answers) / len(answers) == pytest.approx(1 / (1 + COMES_BACK), abs=0.01)

    # When there was nothing to do for four minutes, then it has its patience again
    machine.others = 0.0
    assert all(machine.works(1))
    machine.go_on(PATIENCE_S / COMES_BACK)
    machine.others = 2.0
    machine.works(0.1)
    assert not any(machine.works(PATIENCE_S - 1))


def test_who_is_seldom_let_run_has_no_more_patience() -> None:
    # Given a machine so busy that whoever sleeps for a tenth of a second comes back after one
    machine = Machine()
    machine.others = 2.0
    answers = []
    for _ in range(round(PATIENCE_S)):
        machine.go_on(1.0)
        answers.append(machine.spare.may_work())
    assert not any(answers[:-1])
    machine.go_on(1.0)
    assert machine.spare.may_work()


def test_requests_to_the_store_wait_for_it() -> None:
    async def scenario() -> None:
        # Given a machine that is busy
        machine = Machine()
        machine.others = 2.0
        machine.works(1)
        store = UnhurriedStore(MemoryStore(), machine.spare)

        # When something is to be stored, and read
        put = asyncio.create_task(store.put("a/b", [b"record"]))
        for _ in range(3):
            await asyncio.sleep(LOOK_S)
            machine.go_on(LOOK_S)
        assert not put.done()

        # Then it is as soon as others need less
        machine.others = 0.0
        machine.go_on(LOOK_S * 2)
        await put
        machine.others = 2.0
        machine.works(1)
        get = asyncio.create_task(store.get("a/b", 0, 6))
        await asyncio.sleep(LOOK_S)
        assert not get.done()
        machine.others = 0.0
        machine.go_on(LOOK_S * 2)
        assert bytes(await get) == b"record"

        # And nothing else waits
        machine.others = 2.0
        machine.works(1)
        assert [found.path async for found in store.list("a/")] == ["a/b"]
        await store.delete(["a/b"])
        assert [found.path async for found in store.list("a/")] == []

    virtual_time.run(scenario())


def test_processors_are_idle_as_the_kernel_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given ticks of user, nice, system, idle, waiting for disks, and others
    stat = tmp_path / "stat"
    stat.write_text("cpu  10 20 30 4000 500 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n")
    monkeypatch.setattr(spare_processors, "_STAT", stat)
    monkeypatch.setattr("os.sysconf", lambda name: {"SC_CLK_TCK": 100}[name])
    assert idle_s() == 45.0

    # Where nobody knows, then as if all of them were
    stat.unlink()
    before_s = idle_s()
    assert idle_s() >= before_s > 0
