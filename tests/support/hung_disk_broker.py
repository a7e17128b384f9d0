"""A broker whose disk takes no file any more once the environment's HUNG_DISK is there."""

import os
import threading
from pathlib import Path

from broker import main

if __name__ == "__main__":
    hung = Path(os.environ["HUNG_DISK"])
    flush = os.fdatasync

    def flush_or_hang(file: int) -> None:
        if hung.exists():
            threading.Event().wait()
        flush(file)

    os.fdatasync = flush_or_hang  # type: ignore[assignment]
    main.main()
