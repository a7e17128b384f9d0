"""Where a test's broker finds its Postgres made already: initdb is four fifths of its first start.

What is copied is what an embedded Postgres has made, and left in good order. That it can be made is
shown elsewhere (tests/storage/test_postgres_embedded.py, tests/deploy).
"""

import asyncio
import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Final

from storage.postgres.postgres_binaries import MAJOR_VERSION, initdb_command
from storage.postgres.postgres_embedded import EmbeddedPostgres
from tests.clients.cache import filled_once

FOLDER: Final = "postgres"


def put_postgres(data: Path) -> None:
    """Give a broker a database directory that nobody has used, if it has none yet."""
    target = data / FOLDER
    if not target.exists():
        command = ["cp", "-a", str(_template() / FOLDER), str(target)]
        subprocess.run(command, check=True, capture_output=True)


def _template() -> Path:
    version = "\n".join((MAJOR_VERSION, str(os.geteuid()), *initdb_command(Path("/"))))
    return filled_once(f"postgres-{sha256(version.encode()).hexdigest()[:16]}", _fill)


def _fill(directory: Path) -> None:
    home = Path(tempfile.mkdtemp(prefix="streamhouse-test-", dir="/tmp"))
    try:
        with ThreadPoolExecutor(1) as thread:  # here an event loop may be running
            thread.submit(asyncio.run, _start_and_stop(home / FOLDER)).result()
        subprocess.run(["cp", "-a", home / FOLDER, directory], check=True, capture_output=True)
    finally:
        shutil.rmtree(home)


async def _start_and_stop(directory: Path) -> None:
    async with EmbeddedPostgres(directory):
        pass
