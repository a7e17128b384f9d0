"""A limit of memory for child processes, where this user may set one (Linux control groups)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.results import MeasurementFailed

_ROOT: Final = Path("/sys/fs/cgroup")
_MEMBERS: Final = "cgroup.procs"


@contextmanager
def memory_limit(limit_bytes: int) -> Iterator[None]:
    """Limit the processes that are started inside of the block; this process is not limited.

    Raises:
        MeasurementFailed: this machine does not let us.
    """
    version_1 = _ROOT / "memory"
    parent = version_1 if version_1.is_dir() else _ROOT
    group = parent / f"streamhouse-bench-{os.getpid()}"
    limit = "memory.limit_in_bytes" if parent == version_1 else "memory.max"
    try:
        group.mkdir()
        (group / limit).write_text(str(limit_bytes))
        (group / _MEMBERS).write_text(str(os.getpid()))
    except OSError as error:
        raise MeasurementFailed(
            f"{error.strerror} ({error.filename}); run as a user who may write there, "
            "or with --memory-mib 0 for no limit"
        ) from error
    try:
        yield
    finally:
        (parent / _MEMBERS).write_text(str(os.getpid()))


def remove_memory_groups() -> None:
    """Remove what `memory_limit` made, once its processes have ended."""
    for parent in (_ROOT / "memory", _ROOT):
        for group in parent.glob(f"streamhouse-bench-{os.getpid()}"):
            group.rmdir()
