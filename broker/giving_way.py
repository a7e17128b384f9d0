"""Lets processes that nobody waits for give way to those that somebody waits for.

Where Linux has autogroups (Debian, Ubuntu and Fedora do, outside of containers and services), it
shares the processors out among sessions, and only then, by niceness, among the processes of each:
the nicest process takes as much from another session as any, and what it uses is charged to its own
session, so that a broker in it then waited for 30-80 ms. So it gets a session, which is as nice.
"""

import os
from pathlib import Path
from typing import Final

_AUTOGROUP: Final = Path("/proc/self/autogroup")


def give_way(niceness: int) -> None:
    """Make this process, and what it starts, as nice as that, in a session of its own."""
    if os.getsid(0) != os.getpid():
        os.setsid()
    os.nice(niceness)
    try:
        _AUTOGROUP.write_text(str(niceness))
    except OSError:  # no autogroups, or another changed its own just now: it is nice enough then
        return
