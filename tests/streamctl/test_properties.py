"""Client properties come out of files as Java reads them."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamctl.connection import Connection
from streamctl.connection_options import Given
from streamctl.errors import Failure, UsageError
from streamctl.properties import parse_assignments, parse_properties

SERVERS = "bootstrap.servers"
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
    nothing = _given().connection()
    from_file = _given(config=[config]).connection()
    overridden = _given(config=[config], properties=["acks=all"]).connection()
    flag = _given(config=[config], bootstrap="flag:3")
    later = _given(bootstrap="later:4", properties=["client.id=x"])
    after_the_command = flag.then(later).connection()

    # Then flags beat -X, -X beats files, files beat the environment
    assert nothing.bootstrap == "environment:1"
    assert from_file == Connection(
        bootstrap="file:2", properties={"client.id": "from-file", "acks": "1"}
    )
    assert overridden.properties["acks"] == "all"
    assert flag.connection().bootstrap == "flag:3"
    assert after_the_command.bootstrap == "later:4"
    assert after_the_command.properties == {"client.id": "x", "acks": "1"}


@pytest.mark.parametrize(
    "named", [{"bootstrap": "option:3"}, {"properties": [f"{SERVERS}=option:3"]}]
)
def test_an_option_wins_over_a_file_wherever_each_stands(
    tmp_path: Path, named: dict[str, Any]
) -> None:
    # Given two files that name brokers, and an option that does
    files = [tmp_path / "one.properties", tmp_path / "other.properties"]
    for at, file in enumerate(files):
        file.write_text(f"{SERVERS}=file:{at}\nclient.id=of-{at}\n")
    one, other = (_given(config=[file]) for file in files)
    option = _given(**named)

    # Then the option counts before and behind a file, and of two files the later
    assert one.then(option).connection().bootstrap == "option:3"
    assert option.then(one).connection().bootstrap == "option:3"
    later = one.then(other).connection()
    assert (later.bootstrap, later.properties) == ("file:1", {"client.id": "of-1"})


def test_an_empty_word_names_no_brokers(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text(f"{SERVERS}=\n")
    for empty in (_given(config=[config]), _given(properties=[f"{SERVERS}="])):
        with pytest.raises(UsageError, match="is empty"):
            empty.connection()


def test_a_missing_config_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"absent\.properties: No such file"):
        _given(config=[tmp_path / "absent.properties"])


def _given(
    *,
    bootstrap: str | None = None,
    properties: list[str] | None = None,
    config: list[Path] | None = None,
) -> Given:
    return Given.read(bootstrap=bootstrap, properties=properties, config=config)
