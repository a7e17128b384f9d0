"""The objects that writers have left in a directory store."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from storage.wal_index import WalIndex, parse_index, parse_index_length


def wal_indexes(data: Path) -> Iterator[tuple[Path, WalIndex]]:
    """Yield the objects in the store of a broker's directory, and what they say of themselves."""
    for path in (data / "objects" / "wal").rglob("*"):
        with suppress(FileNotFoundError, IsADirectoryError):  # the sweeper may take it away
            content = path.read_bytes()
            yield path, parse_index(content[-parse_index_length(content) :])


def wal_with_batches(data: Path) -> list[Path]:
    """Return those that do not only tell what happened (storage/untold.py)."""
    return [path for path, index in wal_indexes(data) if index.runs]
