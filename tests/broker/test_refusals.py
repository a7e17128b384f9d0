"""The table of error codes is whole: a condition without a code would be a bug's answer."""

from broker.refusals import CODES
from protocol.errors import ProtocolError
from storage.errors import StorageError


def test_every_condition_of_the_lower_tiers_has_a_code() -> None:
    assert set(StorageError.__subclasses__()) | set(ProtocolError.__subclasses__()) <= set(CODES)


def test_no_condition_is_answered_with_success() -> None:
    assert all(code.value != 0 for code in CODES.values())
