"""deploy/audit.py: what is vulnerable is told, and so is that nothing is known."""

import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.deploy.dockerfile import ROOT

PROGRAM: Final = ROOT / "deploy" / "audit.py"
KNOWN: Final = ("pyyaml", "5.3")
LOCK: Final = """
[[package]]
name = "streamhouse"
version = "0.1.0"
source = { editable = "." }
""" + "".join(
    f"""
[[package]]
name = "{name}"
version = "{version}"
source = {{ registry = "somewhere" }}
wheels = [{{ url = "x", hash = "{kind}:00" }}]
"""
    for name, version, kind in (
        ("good", "1.0", "sha256"),
        ("two-versions", "1.0", "sha256"),
        ("two-versions", "2.0", "sha256"),
    )
)

Release = tuple[str, str]


@contextmanager
def database(vulnerable: Mapping[Release, str]) -> Iterator[str]:
    """An OSV database that knows of some releases; gives its address."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name = asked["package"]["name"]
            fixed = vulnerable.get((name, asked["version"]))
            known = {
                "id": f"PYSEC-1-{name}",
                "affected": [
                    {
                        "package": {"name": name, "ecosystem": "PyPI"},
                        "ranges": [{"type": "ECOSYSTEM", "events": [{"fixed": fixed}]}],
                    }
                ],
            }
            body = json.dumps({"vulns": [known]} if fixed else {}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/query"
        server.shutdown()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    file = tmp_path / "uv.lock"
    file.write_text(LOCK)
    return file


def audit(lock: Path, url: str, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(PROGRAM), "--lock", str(lock), "--service", "osv"]
    return subprocess.run(
        [*command, "--osv-url", url, *options],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_nothing_known_is_fine(lock: Path) -> None:
    with database({KNOWN: "5.4"}) as url:
        ended = audit(lock, url, "--required")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "3 locked packages audited, 0 vulnerabilities\n"


def test_a_vulnerable_version_fails(lock: Path) -> None:
    with database({KNOWN: "5.4", ("two-versions", "1.0"): "1.1"}) as url:
        ended = audit(lock, url)
    assert ended.returncode == 1
    assert ended.stderr == "two-versions 1.0: PYSEC-1-two-versions, fixed in 1.1\n"


def test_a_database_that_knows_nothing_is_no_reason_to_be_glad(lock: Path) -> None:
    with database({}) as url:
        ended = audit(lock, url)
    assert "*** NOT AUDITED" in ended.stderr
    assert "knows nothing" in ended.stderr
    assert "audited," not in ended.stdout


def test_an_answer_from_nobody_is_said_aloud(lock: Path) -> None:
    nowhere = "http://127.0.0.1:9/v1/query"
    ended = audit(lock, nowhere)
    assert ended.returncode == 0  # an offline build goes on
    assert "*** NOT AUDITED" in ended.stderr
    assert audit(lock, nowhere, "--required").returncode == 3


def test_a_package_without_a_hash_fails(lock: Path) -> None:
    lock.write_text(LOCK.replace('hash = "sha256:00"', 'hash = "md5:00"', 1))
    ended = audit(lock, "http://127.0.0.1:9/")
    assert ended.returncode == 2
    assert "good" in ended.stderr


def test_make_check_audits() -> None:
    rules = (ROOT / "Makefile").read_text()
    assert "\n\t.venv/bin/python deploy/audit.py\n" in rules
    assert "\n\t.venv/bin/python deploy/audit.py --required\n" in rules
