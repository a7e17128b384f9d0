"""Arrays as text, as Postgres reads it."""

from hypothesis import given
from hypothesis import strategies as st

from storage.postgres.postgres_arrays import columns_as_texts, numbers_as_text, strings_as_text

NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5)


@given(columns=st.lists(NUMBERS, min_size=1, max_size=6))
def test_columns_are_written_as_each_alone(columns: list[list[int]]) -> None:
    assert columns_as_texts(columns) == [numbers_as_text(column) for column in columns]


def test_no_string_ends_before_its_end() -> None:
    assert strings_as_text([]) == "{}"
    assert strings_as_text(["a", "", 'b"c', "d\\", "e,{}"]) == r'{"a","","b\"c","d\\","e,{}"}'
