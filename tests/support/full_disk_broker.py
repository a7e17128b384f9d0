"""A broker whose store's disk is full for as long as the environment's FULL_DISK is there."""

import errno
import os
from pathlib import Path

from broker import main

if __name__ == "__main__":
    full = Path(os.environ["FULL_DISK"])
    flush = os.fdatasync

    def flush_or_fail(file: int) -> None:
        if full.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(file)

    os.fdatasync = flush_or_fail  # type: ignore[assignment]
    main.main()
