"""Records are shown safely, and nothing in them is lost or made up."""

import base64
import json

from hypothesis import example, given
from hypothesis import strategies as st

from streamctl.printable import Record, as_json, as_text, iso_time, printable

PAYLOADS = st.none() | st.binary(max_size=64)
RECORDS = st.builds(
    Record,
    topic=st.just("events"),
    partition=st.integers(0, 100),
    offset=st.integers(0, 2**63 - 1),
    timestamp_ms=st.none() | st.integers(0, 2**63 - 1),
    timestamp_type=st.sampled_from(["create", "log-append", "none"]),
    key=PAYLOADS,
    value=PAYLOADS,
    headers=st.lists(st.tuples(st.text(st.characters(codec="utf-8")), PAYLOADS), max_size=3),
)


@given(RECORDS)
def test_a_record_is_one_line_that_cannot_drive_a_terminal(record: Record) -> None:
    line = as_text(record, colours=False)
    assert line.isprintable()
    assert line.startswith(f"{record.partition}@{record.offset}  ")


@given(RECORDS)
def test_json_gives_every_byte_back(record: Record) -> None:
    shown = json.loads(as_json(record))
    assert "\n" not in as_json(record)
    assert _bytes(shown["key"]) == record.key
    assert _bytes(shown["value"]) == record.value
    headers = [(header["name"], _bytes(header["value"])) for header in shown["headers"]]
    assert headers == record.headers
    assert shown["timestamp_ms"] == record.timestamp_ms


@given(st.text(st.characters(codec="utf-8"), min_size=1))
@example("日本語 ✓")
def test_printable_text_is_left_as_it_is(text: str) -> None:
    if text.isprintable():
        assert printable(text.encode()) == text


def test_null_empty_controls_and_binary_are_told_apart() -> None:
    assert printable(None) == "<null>"
    assert printable(b"") == "<empty>"
    assert printable(b"\x1b[31mred\n") == r"\x1b[31mred\n"
    assert printable(b"\xff\x00") == r"\xff\x00"


def test_times_are_utc_with_milliseconds_and_may_be_absurd() -> None:
    assert iso_time(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert iso_time(None) == "-"
    assert iso_time(2**63 - 1) == "9223372036854775807ms"


def test_colours_change_nothing_but_colours() -> None:
    record = Record(
        topic="events",
        partition=3,
        offset=17,
        timestamp_ms=0,
        timestamp_type="create",
        key=b"k",
        value=b"v",
        headers=[("trace", b"1")],
    )
    assert as_text(record, colours=False) == "3@17  1970-01-01T00:00:00.000Z  k  v  trace=1"
    assert "\x1b[36m3@17\x1b[0m" in as_text(record, colours=True)


def _bytes(shown: "str | dict[str, str] | None") -> bytes | None:
    if isinstance(shown, dict):
        return base64.b64decode(shown["base64"])
    return None if shown is None else shown.encode()
