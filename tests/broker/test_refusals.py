"""The table of error codes is whole: a condition without a code would be a bug's answer."""

from collections.abc import Iterator

import pytest
from kio.schema.errors import ErrorCode

from broker.refusals import CODES, code_of
from protocol.errors import ProtocolError
from storage.errors import RowsHeld, StorageError


def _kinds_of(base: type[Exception]) -> Iterator[type[Exception]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _kinds_of(kind)


@pytest.mark.parametrize("kind", [*_kinds_of(StorageError), *_kinds_of(ProtocolError)])
def test_every_condition_of_the_lower_tiers_has_a_code(kind: type[Exception]) -> None:
    # Given a condition, made without what its constructor may want
    condition = kind.__new__(kind)

    # When a handler asks for its code, then it is not raised again as a bug
    assert code_of(condition) is not ErrorCode.none


def test_a_condition_of_a_narrower_kind_is_answered_as_its_kind() -> None:
    # Given a row that somebody held for too long, which the table knows as nothing written
    assert RowsHeld not in CODES

    # When a request meets it, then its client is told to try again
    assert code_of(RowsHeld("held")) is ErrorCode.request_timed_out


def test_what_is_no_condition_is_raised_again() -> None:
    # Given a bug, when a handler asks for its code, then dispatch gets to see it
    with pytest.raises(ZeroDivisionError):
        code_of(ZeroDivisionError())


def test_no_condition_is_answered_with_success() -> None:
    assert all(code.value != 0 for code in CODES.values())
