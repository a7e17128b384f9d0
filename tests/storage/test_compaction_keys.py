"""The map of latest offsets against a dict."""

from hypothesis import given
from hypothesis import strategies as st

from storage.upkeep.compaction_keys import NOT_THERE, SLOT_BYTES, LatestOffsets


@given(
    keys=st.lists(st.binary(max_size=3), max_size=300),
    slots=st.integers(0, 400),
    start_offset=st.integers(0, 2**62),
)
def test_it_is_a_dict_until_it_is_full(keys: list[bytes], slots: int, start_offset: int) -> None:
    latest = LatestOffsets(
        max_bytes=slots * SLOT_BYTES, max_keys=1 << 40, start_offset=start_offset
    )
    model: dict[bytes, int] = {}
    for offset, key in enumerate(keys, start_offset):
        if latest.add(key, offset):
            model[key] = offset
        else:
            assert key not in model
            assert model
    assert latest.keys == len(model)
    assert all(latest.latest(key) == offset for key, offset in model.items())
    assert all(latest.latest(key) == NOT_THERE for key in set(keys) - model.keys())
    assert latest.latest(b"of no record") == NOT_THERE


def test_it_holds_the_keys_that_its_bytes_are_for() -> None:
    # Given a mebibyte
    latest = LatestOffsets(max_bytes=1 << 20, max_keys=1 << 40, start_offset=0)

    # When keys are added until there is no more room
    count = 0
    while latest.add(b"user-%d" % count, count):
        count += 1

    # Then nine tenths of the slots are used, and every key is found
    assert count == int((1 << 20) // SLOT_BYTES * 0.9)
    assert all(latest.latest(b"user-%d" % number) == number for number in range(count))
    assert not any(latest.latest(b"other-%d" % number) >= 0 for number in range(count))


def test_it_is_no_larger_than_the_keys_can_be() -> None:
    latest = LatestOffsets(max_bytes=1 << 40, max_keys=1_000, start_offset=0)
    assert all(latest.add(b"%d" % number, number) for number in range(1_000))


def test_an_offset_too_far_from_the_first_one_has_no_room() -> None:
    latest = LatestOffsets(max_bytes=1 << 10, max_keys=1 << 40, start_offset=7)
    assert latest.add(b"a", 7 + 2**32 - 1)
    assert not latest.add(b"a", 7 + 2**32)
    assert latest.latest(b"a") == 7 + 2**32 - 1
