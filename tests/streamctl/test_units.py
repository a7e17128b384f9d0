"""Durations and sizes mean what people write."""

import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamctl.units import (
    INFINITE,
    LARGEST,
    approximate_size,
    format_duration,
    format_size,
    parse_bytes,
    parse_duration,
    parse_retention,
    parse_size,
    parse_time,
)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("30d", 2_592_000_000),
        ("12h", 43_200_000),
        ("45m", 2_700_000),
        ("90s", 90_000),
        ("1500ms", 1500),
        ("2w", 1_209_600_000),
        ("1d12h", 129_600_000),
        ("0s", 0),
    ],
)
def test_a_duration_is_read_in_milliseconds(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("30", "no unit"),
        ("30x", "30d, 12h"),
        ("", "30d, 12h"),
        ("-1d", "30d, 12h"),
        ("1.5h", "30d, 12h"),
        ("30D", "30d, 12h"),
        ("12h1d", "out of order or twice"),
        ("1h1h", "out of order or twice"),
        ("infinite", "30d, 12h"),
        ("9999999999999999w", "64 bits"),
    ],
)
def test_what_is_no_duration_is_refused_with_advice(text: str, advice: str) -> None:
    with pytest.raises(ValueError, match=re.escape(advice)):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1738324800000", 1_738_324_800_000),
        ("2025-01-31T12:00:00Z", 1_738_324_800_000),
        ("2025-01-31T12:00:00.123", 1_738_324_800_123),
        ("2025-01-31T13:00:00+01:00", 1_738_324_800_000),
        ("2025-01-31", 1_738_281_600_000),
        ("0", 0),
    ],
)
def test_a_time_is_read_in_milliseconds_of_utc(text: str, milliseconds: int) -> None:
    assert parse_time(text) == milliseconds


@pytest.mark.parametrize("text", ["", "noon", "-1", "31.01.2025", "1969-12-31", "9" * 20])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"2025-01-31|before 1970|64 bits"):
        parse_time(text)


def test_only_retention_may_be_infinite() -> None:
    assert parse_retention("infinite") == INFINITE
    with pytest.raises(ValueError, match="infinite"):
        parse_retention("for ever")
    with pytest.raises(ValueError, match=r"1ms, 1s or 1d$"):
        parse_retention("1")


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_duration, "9" * 20 + "d"),
        (parse_time, "9" * 20),
        (parse_bytes, "9" * 20),
        (parse_bytes, "ten"),
        (parse_bytes, "infinite"),
    ],
)
def test_infinite_is_offered_only_where_it_is_taken(parse: Callable[[str], int], text: str) -> None:
    with pytest.raises(ValueError, match=r"is larger|is not a size") as refused:
        parse(text)
    assert "infinite" not in str(refused.value).removeprefix("'infinite'")


@pytest.mark.parametrize("parse", [parse_retention, parse_size])
def test_what_is_too_large_for_a_limit_may_be_infinite(parse: Callable[[str], int]) -> None:
    with pytest.raises(ValueError, match="say infinite"):
        parse("9999999PiB" if parse is parse_size else "9999999999999999w")


@given(st.integers(INFINITE, LARGEST))
@example(0)
@example(2_592_000_000)
def test_a_written_duration_is_read_back(milliseconds: int) -> None:
    assert parse_retention(format_duration(milliseconds)) == milliseconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("10GiB", 10 * 1024**3),
        ("500MB", 500_000_000),
        ("1048576", 1_048_576),
        ("1 KiB", 1024),
        ("7b", 7),
        ("2tib", 2 * 1024**4),
        ("infinite", INFINITE),
    ],
)
def test_a_size_is_read_in_bytes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "10G", "GiB", "-5", "1.5GiB", "10 XB", "9999999PiB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"10GiB|64 bits"):
        parse_size(text)


@given(st.integers(INFINITE, LARGEST))
@example(10 * 1024**3)
@example(500_000_000)
def test_a_written_size_is_read_back(size: int) -> None:
    assert parse_size(format_size(size)) == size


def test_sizes_are_written_in_the_largest_unit_that_fits() -> None:
    assert format_size(10 * 1024**3) == "10GiB"
    assert format_size(500_000_000) == "500MB"
    assert format_size(1023) == "1023"
    assert approximate_size(54_400_000) == "54.4 MB"
    assert approximate_size(0) == "0 B"
