"""Any text can be stored, and comes back."""

from hypothesis import given
from hypothesis import strategies as st

from storage.postgres.postgres_text import from_stored, to_stored

ODD = st.text(st.sampled_from("\x00\x0101a\\é"))


@given(text=ODD | st.text())
def test_text_comes_back_as_it_was(text: str) -> None:
    assert "\x00" not in to_stored(text)
    assert from_stored(to_stored(text)) == text


@given(text=st.text(st.characters(min_codepoint=2)))
def test_usual_text_is_stored_as_it_is(text: str) -> None:
    assert to_stored(text) == text
