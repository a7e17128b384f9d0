"""The checker finds what is there: one that finds nothing would pass everything."""

import base64
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.secrets import check_log, leaks

SECRET = 'a/long?pass#word%40"here'


@pytest.mark.parametrize(
    "text",
    [
        f"cannot connect: {SECRET}",
        f"postgresql://u:{quote(SECRET, safe='')}@db/d",
        '{"reason": "a/long?pass#word%40\\"here"}',
        f"Basic {base64.b64encode(SECRET.encode()).decode()}",
        "invalid literal for int() with base 10: 'word%40\"here'",  # the end of it
        f"key {SECRET.encode().hex()}",
    ],
)
def test_a_secret_is_found_in_many_forms(text: str) -> None:
    assert leaks(text, {"mine": SECRET, "other": "something-else"}) == ["mine"]


@pytest.mark.parametrize(
    "line",
    [
        '{"reason": "postgresql://u:hunter2@db/d does not answer"}',
        "GET http://user:p%40ss@registry:8081/schemas",
        "Authorization: Bearer 0123456789abcdef0123456789abcdef",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMII",
        "-----BEGIN PRIVATE KEY-----",
    ],
)
def test_a_log_with_a_secret_fails(line: str, tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_text(f'{{"event": "fine"}}\n{line}\n')
    with pytest.raises(AssertionError) as failed:
        check_log(log)
    assert "hunter2" not in str(failed.value)


@pytest.mark.parametrize(
    "line",
    [
        '{"endpoint": "http://127.0.0.1:7070", "to": "bob@example.org"}',
        "postgresql://u:***@db/d",
        "postgresql://u@db/d",
        "SASL_SSL://localhost:9094,PLAINTEXT://127.0.0.1:9092",
        '{"jwks": "https://id.example:8443/keys", "contact": "a@b"}',
        "the token is missing",
    ],
)
def test_a_log_without_one_passes(line: str, tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_text(line)
    check_log(log)
