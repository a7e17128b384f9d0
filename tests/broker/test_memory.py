from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from broker.network.memory import RESERVE_PART, HeldMemory, MemoryBudget


def test_frames_wait_for_memory_in_the_order_they_came() -> None:
    # Given a full budget, a large frame that waits, and a small one behind it
    budget = MemoryBudget(100)
    assert budget.try_take(80)
    granted: list[str] = []
    budget.wait(60, lambda: granted.append("large"))
    assert not budget.try_take(10), "nobody overtakes"
    budget.wait(10, lambda: granted.append("small"))

    # When the first frame is answered
    budget.give_back(80)

    # Then both get their memory, first come, first served
    assert granted == ["large", "small"]
    assert budget.used_bytes == 70


def test_a_frame_larger_than_the_budget_is_let_in_alone() -> None:
    budget = MemoryBudget(100)
    assert budget.try_take(1000)
    assert not budget.try_take(1)
    budget.give_back(1000)
    assert budget.try_take(1)


def test_who_is_gone_waits_no_more() -> None:
    budget = MemoryBudget(100)
    budget.take(100)
    granted: list[str] = []

    def gone() -> None:
        granted.append("gone")

    budget.wait(90, gone)
    budget.wait(20, lambda: granted.append("next"))
    budget.withdraw(gone)
    budget.give_back(100)
    assert granted == ["next"]


class Waiter:
    """What is told that it may go on; counts how often it is compared to others."""

    compared = 0

    def __call__(self) -> None:
        raise AssertionError("there is no room")

    def __eq__(self, other: object) -> bool:
        type(self).compared += 1
        return self is other

    __hash__ = object.__hash__


def test_when_many_go_nobody_looks_for_each_of_them_among_all() -> None:
    # Given memory that is used up, and many who wait for it in every way
    budget, many = MemoryBudget(100), 1000
    assert budget.try_grow(150, budget)
    HeldMemory(budget, 150)
    waiters = [Waiter() for _ in range(5 * many)]
    for at in range(0, len(waiters), 5):
        budget.wait_for_room(waiters[at], appends=True)
        budget.wait_for_room(waiters[at + 1], appends=False)
        budget.wait_to_begin(1, waiters[at + 2])
        budget.wait(1, waiters[at + 3])
        budget.wait_to_grow(1, waiters, waiters[at + 4])
    assert budget.contended

    # When all go, then each is found without the others
    for waiter in waiters:
        budget.withdraw(waiter)
    assert Waiter.compared < many
    assert not budget.contended


@given(sizes=st.lists(st.integers(1, 150), max_size=30), data=st.data())
def test_the_limit_holds_and_nobody_starves(sizes: list[int], data: st.DataObject) -> None:
    budget = MemoryBudget(100)
    held: list[int] = []
    for size in sizes:
        if budget.try_take(size):
            held.append(size)
        else:
            budget.wait(size, partial(held.append, size))
        if data.draw(st.booleans()) and held:
            budget.give_back(held.pop(data.draw(st.integers(0, len(held) - 1))))
        assert budget.used_bytes == sum(held)
        assert sum(held) <= 100 or len(held) == 1
    granted = len(held)
    while held:
        budget.give_back(held.pop(0))
        granted = max(granted, len(held))
    assert budget.used_bytes == 0


def test_who_is_paused_goes_on_before_those_who_wait_for_memory() -> None:
    # Given a large frame that waits, and a connection that is paused because nothing is free
    budget = MemoryBudget(100)
    budget.take(100)
    order: list[str] = []
    budget.wait(90, partial(order.append, "large"))
    budget.wait_for_room(partial(order.append, "paused"), appends=True)

    # When a little is given back
    budget.give_back(20)

    # Then the paused one, who may be in the middle of a frame, is not behind the one that waits
    assert order == ["paused"]


def test_no_limit_is_never_exhausted() -> None:
    budget = MemoryBudget(-1)
    assert budget.try_take(1 << 40)
    assert budget.has_room(appends=True)


def test_who_appends_nothing_has_a_reserve() -> None:
    # Given a budget that is used up, and one that its reserve is, too
    budget, reserve = MemoryBudget(80), 80 // RESERVE_PART
    budget.take(80)
    assert [budget.has_room(appends=appends) for appends in (True, False)] == [False, True]
    budget.take(reserve)
    assert not budget.has_room(appends=False)

    # When both wait, and a little is given back, then first who appends nothing goes on
    order: list[str] = []
    budget.wait_for_room(partial(order.append, "appends"), appends=True)
    budget.wait_for_room(partial(order.append, "appends nothing"), appends=False)
    budget.give_back(1)
    assert order == ["appends nothing"]
    budget.give_back(reserve)
    assert order == ["appends nothing", "appends"]


def test_what_waits_to_begin_goes_on_when_less_has_begun() -> None:
    budget = MemoryBudget(80)
    budget.take(100)
    held = HeldMemory(budget, 80)
    began: list[str] = []
    budget.wait_to_begin(50, partial(began.append, "first"))
    budget.wait_to_begin(50, partial(began.append, "second"))
    budget.wait_to_begin(50, partial(began.append, "third"))
    budget.give_back(20)  # of what has not begun
    assert not began

    # And only those are called for whom there is room, so that none looks for it in vain
    held.give_back()
    assert began == ["first", "second"]
    assert budget.begun_bytes == 100


def test_the_memory_of_a_frame_is_given_back_once() -> None:
    budget = MemoryBudget(100)
    budget.take(60)
    held = HeldMemory(budget, 40)
    held.give_back()
    held.give_back()
    assert budget.used_bytes == 20
