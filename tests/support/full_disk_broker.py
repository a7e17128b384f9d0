"""A broker whose store's disk is full for as long as the environment's FULL_DISK is there.

It forgets a client that is gone, and what it sent, after a second rather than half a minute.
"""

import errno
import os
from pathlib import Path

from broker import main
from broker.network import connection

if __name__ == "__main__":
    full = Path(os.environ["FULL_DISK"])
    flush = os.fdatasync

    def flush_or_fail(file: int) -> None:
        if full.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(file)

    connection.UNREAD_S = 1  # type: ignore[misc]
    os.fdatasync = flush_or_fail  # type: ignore[assignment]
    main.main()
