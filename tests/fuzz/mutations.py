"""How bytes are damaged: blindly, and where it is known that a length stands."""

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from protocol.codec import write_uvarint
from tests.fuzz.values import pick

LIES: Final = (
    *(struct.pack(">i", n) for n in (-1, -2, 2**31 - 1, -(2**31), 1_000_001, 100_000, 0x7FFF)),
    *(struct.pack(">h", n) for n in (-1, -2, 2**15 - 1, -(2**15), 256)),
    *(write_uvarint(n) for n in (0, 1, 2, 127, 128, 100_001, 2**31, 2**32 - 1)),
    *(b"\xff\xff\xff\xff\x7f", b"\xff\xff\xff\xff\xff\x01", b"\x80\x80", b"\x80" * 12),
    *(b"\0", b"\x01", b"\x02", b"\x7f", b"\x80", b"\xc3", b"\xff", b"\xed\xa0\x80"),
)
"""Lengths, counts and markers that are not true, or not well-formed."""

Mutation = Callable[[Random, bytearray, Sequence[tuple[int, int]]], None]
"""Takes bytes and the places of their lengths (where, how long)."""


def _place(random: Random, data: bytearray) -> int:
    return int(random.random() * (len(data) + 1))


def _flip_bit(random: Random, data: bytearray, _: Sequence[tuple[int, int]]) -> None:
    if data:
        data[int(random.random() * len(data))] ^= 1 << int(random.random() * 8)


def _truncate(random: Random, data: bytearray, _: Sequence[tuple[int, int]]) -> None:
    del data[_place(random, data) :]


def _cut_out(random: Random, data: bytearray, _: Sequence[tuple[int, int]]) -> None:
    at = _place(random, data)
    del data[at : at + 1 + int(random.random() * 16)]


def _insert(random: Random, data: bytearray, _: Sequence[tuple[int, int]]) -> None:
    at = _place(random, data)
    data[at:at] = pick(random, LIES) if random.random() < 0.5 else random.randbytes(5)


def _overwrite(random: Random, data: bytearray, _: Sequence[tuple[int, int]]) -> None:
    at, lie = _place(random, data), pick(random, LIES)
    data[at : at + len(lie)] = lie


def _splice(random: Random, data: bytearray, _: Sequence[tuple[int, int]]) -> None:
    """Put a piece of the bytes somewhere else, once or very often: arrays within arrays."""
    start, at = _place(random, data), _place(random, data)
    piece = data[start : start + 1 + int(random.random() * 64)]
    chosen = random.random()
    data[at:at] = piece * (1 if chosen < 0.9 else int(random.random() * 200))


def _lie(random: Random, data: bytearray, marks: Sequence[tuple[int, int]]) -> None:
    """Replace a length by another one."""
    if marks:
        at, size = pick(random, marks)
        data[at : at + size] = pick(random, LIES)


def _off_by_one(random: Random, data: bytearray, marks: Sequence[tuple[int, int]]) -> None:
    if marks:
        at, size = pick(random, marks)
        last = at + size - 1
        if last < len(data):
            data[last] = (data[last] + (1 if random.random() < 0.5 else -1)) % 256


MUTATIONS: Final[tuple[Mutation, ...]] = (
    *(_flip_bit, _truncate, _cut_out, _insert, _overwrite, _splice),
    *(_lie, _lie, _lie, _off_by_one, _off_by_one),
)


def mutate(random: Random, data: bytearray, marks: Sequence[tuple[int, int]]) -> None:
    """Damage the bytes in place, mostly once; marks are only right for the first time."""
    while True:
        pick(random, MUTATIONS)(random, data, marks)
        if random.random() < 0.7:
            return


def corrupt(random: Random, data: bytes) -> bytes:
    """Return the bytes damaged somewhere."""
    damaged = bytearray(data)
    mutate(random, damaged, ())
    return bytes(damaged)
