"""Answers are built by the names of all versions' fields; what that needs is imported, no more."""

from collections.abc import Iterator
from types import ModuleType
from typing import Literal

import pytest
from kio.index import load_payload_module
from kio.static.constants import EntityType

from protocol import codec
from protocol.codec import encode_response, kio_versions, response_types
from tests.support.wire import milliseconds

LIST_OFFSETS = 2
NO_THROTTLE = milliseconds(0)


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Return the versions whose modules are asked for."""
    versions: list[int] = []

    def load(api_key: int, version: int, kind: Literal[EntityType.response]) -> ModuleType:
        versions.append(version)
        return load_payload_module(api_key, version, kind)

    caches = (codec.response_types, codec._is_of_another_version)
    for cache in caches:
        cache.cache_clear()
    monkeypatch.setattr(codec, "load_payload_module", load)
    yield versions
    for cache in caches:
        cache.cache_clear()


def test_a_version_that_has_all_fields_needs_no_other(imported: list[int]) -> None:
    types = response_types(LIST_OFFSETS, 2)
    answer = types.ListOffsetsResponse(throttle_time=NO_THROTTLE, topics=())
    assert encode_response(7, answer) == bytes.fromhex("0000000c 00000007 00000000 00000000")
    assert imported == [2]


def test_fields_that_came_later_are_left_out(imported: list[int]) -> None:
    types = response_types(LIST_OFFSETS, 1)
    answer = types.ListOffsetsResponse(throttle_time=NO_THROTTLE, topics=())
    assert encode_response(7, answer) == bytes.fromhex("00000008 00000007 00000000")
    assert imported == [1, kio_versions(LIST_OFFSETS)[1]]


def test_a_field_of_no_version_is_told_by_its_name(imported: list[int]) -> None:
    types = response_types(LIST_OFFSETS, 1)
    with pytest.raises(TypeError, match="ListOffsetsResponse has no field throttel_time"):
        types.ListOffsetsResponse(throttel_time=NO_THROTTLE, topics=())
