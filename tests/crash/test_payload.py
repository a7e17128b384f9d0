"""A value's bytes name it, and no others do."""

import pytest

from tests.crash.ledger import FOREIGN
from tests.crash.payload import LEAST_BYTES, SPREAD_BYTES, decode, encode


@pytest.mark.parametrize("value", [0, 9, 10, 12_345, 10**9])
def test_bytes_name_their_value(value: int) -> None:
    assert LEAST_BYTES <= len(encode(value)) < LEAST_BYTES + SPREAD_BYTES
    assert decode(encode(value)) == value


@pytest.mark.parametrize(
    "data", [None, b"", b"x", b"7", encode(7)[:-1], encode(7) + b" ", b"8" + encode(7)[1:]]
)
def test_other_bytes_are_foreign(data: bytes | None) -> None:
    assert decode(data) == FOREIGN
