"""Client properties come out of files as Java reads them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamctl.connection import Connection
from streamctl.errors import Failure, UsageError
from streamctl.options import given_connection
from streamctl.properties import parse_assignments, parse_properties

JAVA = r"""
# a comment
! another one
security.protocol=SASL_SSL
sasl.mechanism : PLAIN
sasl.username user one
sasl.password=a=b:c
   ssl.ca.location = C:\\certs\\ca.pem
long.value=one,\
    two
escaped\ key\=1=tab\there\u0041
empty=
lonely
"""


def test_a_java_properties_file_is_understood() -> None:
    assert parse_properties(JAVA) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "user one",
        "sasl.password": "a=b:c",
        "ssl.ca.location": r"C:\certs\ca.pem",
        "long.value": "one,two",
        "escaped key=1": "tab\thereA",
        "empty": "",
        "lonely": "",
    }


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    parse_properties(text)


def _written(text: str) -> str:
    return "".join(f"\\u{ord(character):04x}" for character in text)


@given(
    st.dictionaries(
        st.text(st.characters(max_codepoint=0xFFFF)), st.text(st.characters(max_codepoint=0xFFFF))
    )
)
def test_escaped_properties_are_read_back(properties: dict[str, str]) -> None:
    lines = [f"{_written(key)}={_written(value)}" for key, value in properties.items()]
    assert parse_properties("\n".join(lines)) == properties


def test_assignments_keep_equals_signs_in_values() -> None:
    assert parse_assignments("-X", ["a=b=c", "d="]) == {"a": "b=c", "d": ""}
    for wrong in ("novalue", "=x"):
        with pytest.raises(UsageError, match="name=value"):
            parse_assignments("-X", [wrong])


def test_the_nearest_word_about_the_connection_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given brokers named in the environment and in a file
    monkeypatch.setenv("STREAMHOUSE_BOOTSTRAP", "environment:1")
    config = tmp_path / "client.properties"
    config.write_text("bootstrap.servers=file:2\nclient.id=from-file\nacks=1\n")

    # When options are given, or not
    nothing = _given()
    from_file = _given(config=[config])
    overridden = _given(config=[config], properties=["acks=all"])
    flag = _given(config=[config], bootstrap="flag:3")
    after_the_command = _given(before=flag, bootstrap="later:4", properties=["client.id=x"])

    # Then flags beat -X, -X beats files, files beat the environment
    assert nothing.bootstrap == "environment:1"
    assert from_file == Connection(
        bootstrap="file:2", properties={"client.id": "from-file", "acks": "1"}
    )
    assert overridden.properties["acks"] == "all"
    assert flag.bootstrap == "flag:3"
    assert after_the_command.bootstrap == "later:4"
    assert after_the_command.properties == {"client.id": "x", "acks": "1"}


def test_a_missing_config_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"absent\.properties: No such file"):
        _given(config=[tmp_path / "absent.properties"])


def _given(
    *,
    before: Connection | None = None,
    bootstrap: str | None = None,
    properties: list[str] | None = None,
    config: list[Path] | None = None,
) -> Connection:
    return given_connection(before, bootstrap=bootstrap, properties=properties, config=config)
