"""Look up every locked package in a database of known vulnerabilities.

    python deploy/audit.py [--required] [--service osv|pypi] [--lock uv.lock] [--osv-url URL]

pip-audit asks the OSV database, or else the Python Package Index. Neither is reached from every
machine, and a mirror may answer every question with "nothing known"; so a release that is known to
be vulnerable is asked about first. Where that is not told, nothing is known: this says so on
standard error, NOT AUDITED, and only --required makes it a failure. `make check` goes without, so
that it works offline; `make audit`, which releases are built with, has it.

Exit codes: 0 nothing found (or not audited), 1 vulnerable, 2 a package without a hash in the lock,
3 not audited although --required.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

SERVICES: Final = ("osv", "pypi")
KNOWN_VULNERABLE: Final = ("pyyaml", "5.3")
"""Runs what it reads (CVE-2020-1747): a database that does not know that knows nothing."""

ACCEPTED: Final[dict[str, str]] = {}
"""Vulnerabilities, by id, that do not concern this project, each with the reason why."""

RUN_S: Final = 600
ANSWER_S: Final = 15
REASON_CHARACTERS: Final = 200
VULNERABLE, NO_HASH, NOT_AUDITED = 1, 2, 3

Pin = tuple[str, str]
"""Name and version of a package."""


class NotAudited(Exception):
    """The database gave no answer that says anything."""


class Finding(NamedTuple):
    """What is known about one release."""

    name: str
    version: str
    vulnerability: str
    fixed_in: str


def locked(lock: Path) -> tuple[list[Pin], list[str]]:
    """Return the packages of a lock file, and the names of those with a file without a hash."""
    pins, unhashed = [], []
    for package in tomllib.loads(lock.read_text())["package"]:
        if "registry" not in package["source"]:  # the project itself
            continue
        files = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else [])]
        if not files or not all(file.get("hash", "").startswith("sha256:") for file in files):
            unhashed.append(package["name"])
        pins.append((package["name"], package["version"]))
    return pins, unhashed


def ask(service: str, pins: Iterable[Pin], options: Sequence[str]) -> list[Finding]:
    """Return what a database knows about packages.

    Raises:
        NotAudited: it did not answer, or not for all of them.
    """
    return [finding for part in _without_doubles(pins) for finding in _ask(service, part, options)]


def _without_doubles(pins: Iterable[Pin]) -> Iterator[list[Pin]]:
    """Yield parts that have no name twice: another version is locked for another Python."""
    rest = list(pins)
    while rest:
        part = dict(reversed(rest))
        yield list(part.items())
        rest = [(name, version) for name, version in rest if part[name] != version]


def _ask(service: str, pins: Sequence[Pin], options: Sequence[str]) -> list[Finding]:
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text("".join(f"{name}=={version}\n" for name, version in pins))
        command = [sys.executable, "-m", "pip_audit", "--requirement", str(requirements)]
        ended = subprocess.run(  # noqa: S603 (our own arguments)
            [
                *command,
                *("--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json"),
                *("--vulnerability-service", service, "--timeout", str(ANSWER_S)),
                *("--cache-dir", str(Path(folder) / "cache"), *options),
            ],
            check=False,
            capture_output=True,
            text=True,
            timeout=RUN_S,
        )
    try:
        answer = json.loads(ended.stdout)
    except ValueError:
        said = ended.stderr.strip().splitlines()
        reason = said[-1][:REASON_CHARACTERS] if said else f"exit code {ended.returncode}"
        raise NotAudited(reason) from None
    return list(_findings(answer["dependencies"]))


def _findings(dependencies: Iterable[dict[str, Any]]) -> Iterator[Finding]:
    for dependency in dependencies:
        if "skip_reason" in dependency:
            raise NotAudited(dependency["skip_reason"])
        for found in dependency["vulns"]:
            if ACCEPTED.keys() & {found["id"], *found["aliases"]}:
                continue
            fixes = " or ".join(found["fix_versions"]) or "no version yet"
            yield Finding(dependency["name"], dependency["version"], found["id"], fixes)


def audit(
    pins: Sequence[Pin], services: Iterable[str], osv_options: Sequence[str]
) -> list[Finding]:
    """Return what the first database that knows anything knows about packages.

    Raises:
        NotAudited: none does; the message says why.
    """
    reasons = []
    for service in services:
        given = osv_options if service == "osv" else ()
        try:
            if ask(service, [KNOWN_VULNERABLE], given):
                return ask(service, pins, given)
            reasons.append(f"{service}: it knows nothing of a release that is known to be bad")
        except NotAudited as unknown:
            reasons.append(f"{service}: {unknown}")
        except subprocess.TimeoutExpired:
            reasons.append(f"{service}: no answer in {RUN_S} s")
    raise NotAudited("; ".join(reasons))


def main() -> int:
    """Audit, and return the exit code."""
    parser = argparse.ArgumentParser(description="Audit the locked packages.")
    parser.add_argument("--required", action="store_true", help="fail if it is not possible")
    parser.add_argument("--service", choices=SERVICES, help="ask no other")
    parser.add_argument("--lock", type=Path, default=Path(__file__).parents[1] / "uv.lock")
    parser.add_argument("--osv-url", help="of a mirror of the OSV database's API")
    given = parser.parse_args()
    pins, unhashed = locked(given.lock)
    if unhashed:
        print(f"no hash is locked for {', '.join(unhashed)}", file=sys.stderr)  # noqa: T201
        return NO_HASH
    try:
        services = [given.service] if given.service else SERVICES
        findings = audit(pins, services, ["--osv-url", given.osv_url] if given.osv_url else [])
    except NotAudited as reason:
        print(  # noqa: T201
            f"\n*** NOT AUDITED: whether any of {len(pins)} locked packages is vulnerable is not "
            f"known. {reason}\n",
            file=sys.stderr,
        )
        return NOT_AUDITED if given.required else 0
    for name, version, vulnerability, fixed_in in findings:
        print(f"{name} {version}: {vulnerability}, fixed in {fixed_in}", file=sys.stderr)  # noqa: T201
    print(f"{len(pins)} locked packages audited, {len(findings)} vulnerabilities")  # noqa: T201
    return VULNERABLE if findings else 0


if __name__ == "__main__":
    sys.exit(main())
