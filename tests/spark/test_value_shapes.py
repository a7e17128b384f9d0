"""Wide values: which of them are looked at for columns, and how fast."""

import json
import time

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark.tables import drift
from spark.tables.value_shapes import has_unknown, parsed, shape_key
from tests.spark.test_decoded_tables import COLUMNS, records

JAVA_ONLY = 10**9


@pytest.mark.parametrize(
    "one",
    [
        *('{"a":1}', '{"a":1.5}', '{"a":"x"}', '{"a":true}', '{"a":null}', '{"b":1}', "{}"),
        *('{"a":9223372036854775808}', '{"a":-100000000000000000000}', '{"a":{}}', '{"a":[]}'),
        *('{"a":{"b":1}}', '{"a":[1]}', '{"a":["x"]}', '{"a":[{"b":1}]}', '{"a":[1,"x"]}'),
    ],
)
def test_one_shape_is_no_other(one: str) -> None:
    # Given a value, and others that differ from it in what they hold, not in what it is
    same = {
        '{"a":1}': ['{"a":-9223372036854775808}'],
        '{"a":1.5}': ['{"a":-1e300}', '{"a":NaN}'],
        '{"a":"x"}': ['{"a":""}', ' {"a" : "\\u00e4"}'],
        '{"a":9223372036854775808}': ['{"a":-9999999999999999999}'],
        '{"a":[1]}': ['{"a":[1,null,2]}', '{"a":[5,1,9]}'],
        '{"a":[{"b":1}]}': ['{"a":[{"b":null},{"b":2},null]}'],
        '{"a":[1,"x"]}': ['{"a":[[],{}]}', '{"a":[true,1.5]}'],
    }
    groups = {key_of(other) for other in same.get(one, [one])}

    # Then they have its shape, and nothing else has
    assert groups == {key_of(one)}
    others = [other for other in same if other != one]
    assert key_of(one) not in map(key_of, others)


def key_of(text: str) -> bytes:
    value = parsed(text)
    assert value is not None
    return shape_key(value)


def test_elements_have_one_shape_together() -> None:
    assert key_of('{"l":[1,2.5]}') == key_of('{"l":[2.5]}')
    assert key_of('{"l":[{"a":1},{"b":2}]}') == key_of('{"l":[{"b":1,"a":2}]}')
    assert key_of('{"l":[1,1000000000000000000000]}') == key_of('{"l":[1000000000000000000001]}')
    assert key_of('{"l":[{"a":[1]},{"a":["x"]}]}') == key_of('{"l":[{"a":["x",1]}]}')


@pytest.mark.parametrize("text", ["[1]", '{"a":1} x', "{", '"a"', "[" * 100_000, ""])
def test_what_is_no_object_has_no_shape(text: str) -> None:
    assert parsed(text) is None


def test_null_is_no_unknown_field() -> None:
    assert has_unknown({"a": 1, "b": False}, {"a"})
    assert not has_unknown({"a": 1, "b": None}, {"a"})


def test_wide_values_have_the_columns_of_narrow_ones(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given values with new fields of all kinds, and what is no value of a table
    given = records(
        session,
        *(b'{"id":1,"text":""}', b'{"id":2,"text":"abc"}', b'{"id":3,"name":null,"none":null}'),
        *(b'{"id":4,"o":{"a":null}}', b'{"id":5,"o":{"a":1}}', b'{"id":6,"o":{}}'),
        *(b'{"id":7,"l":[]}', b'{"id":8,"l":[1]}', b'{"id":9,"l":[{"a":1},{"b":2}]}'),
        *(b'{"id":1,"n":5000000000000000000}', b'{"id":1,"n":9300000000000000000}'),
        *(b'{"id":1,"m":1}', b'{"id":1,"m":1.5}', b'{"id":1,"q":true}', b'{"id":1,"q":1e400}'),
        *(b'{"id":1,"x":1}x', b"[1]", b'{"y', b"\xff", None, b'{"id":1}', b'{"z":"\xff"}'),
    )
    by_java, by_python = (shapes(given, monkeypatch, wide) for wide in (JAVA_ONLY, 0))

    # Then it makes no difference how they are told apart
    assert by_java
    found = drift.infer(session, by_python)
    assert {one.name: one.dataType for one in found} == {
        one.name: one.dataType for one in drift.infer(session, by_java)
    }
    assert [one for one in by_java if one not in by_python] == ['{"id":1,"x":1}x']


def shapes(given: DataFrame, monkeypatch: pytest.MonkeyPatch, wide_bytes: int) -> list[str]:
    monkeypatch.setattr(drift, "WIDE_BYTES", wide_bytes)
    return drift.new_shapes(given, COLUMNS, F.col("value"))


def test_a_wide_value_of_the_shape_of_a_short_one_is_not_looked_at(session: SparkSession) -> None:
    given = records(
        session,
        b'{"new":"%s","id":1}' % (b"x" * drift.WIDE_BYTES),
        b'{"id":1,"new":"x"}',
        b'{"other":"%s","id":1}' % (b"x" * drift.WIDE_BYTES),
    )
    texts = drift.new_shapes(given, COLUMNS, F.col("value"))
    assert [text[:10] for text in texts] == ['{"id":1,"n', '{"other":"']


def test_wide_values_take_a_fraction_of_what_java_takes(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given values with thousands of new fields
    wide = {f"field_{number}": f"text {number} " + "x" * 40 for number in range(12_000)}
    values = [json.dumps({"id": number, **wide}).encode() for number in range(100)]
    few, many = (records(session, *values[:count]).cache() for count in (2, 100))
    assert (few.count(), many.count()) == (2, 100)

    # When both ways are warm
    seconds = {}
    for wide_bytes in (JAVA_ONLY, 0):
        assert len(shapes(few, monkeypatch, wide_bytes)) == 1
        begin = time.monotonic()
        assert len(shapes(many, monkeypatch, wide_bytes)) == 1
        seconds[wide_bytes] = time.monotonic() - begin
    few.unpersist()
    many.unpersist()

    # Then Python is faster, though Java looks at them once here, and not for their texts as well
    assert seconds[0] * 1.25 < seconds[JAVA_ONLY], seconds
