"""A broker that is stopped must not have met a bug, whatever its clients made of that."""

from pathlib import Path

import pytest

from tests.support.broker import check_bugs


@pytest.mark.parametrize(
    "line",
    [
        '{"api": "fetch", "event": "bug in a handler", "level": "error"}',
        '{"event": "bug while groups were taken", "exception": "..."}',
        "Traceback (most recent call last):",
    ],
)
def test_a_log_that_tells_of_a_bug_fails(line: str, tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_text(f'{{"event": "fine"}}\n{line}\n')
    with pytest.raises(AssertionError, match="1 bugs in"):
        check_bugs(log)


def test_a_log_without_one_passes(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_text('{"client_id": "debug in a hurry", "event": "topic created"}\n')
    check_bugs(log)
