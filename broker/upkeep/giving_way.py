"""Lets processes that nobody waits for give way to those that somebody waits for.

Where Linux has autogroups (Debian, Ubuntu and Fedora do, outside of containers and services), it
shares the processors out among sessions, and only then, by niceness, among the processes of each:
the nicest process takes as much from another session as any, and what it uses is charged to its own
session, so that a broker in it then waited for 30-80 ms. So it gets a session, which is as nice.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_AUTOGROUP: Final = Path("/proc/self/autogroup")
_ENABLED: Final = Path("/proc/sys/kernel/sched_autogroup_enabled")
_CONTROL_GROUPS: Final = Path("/proc/self/cgroup")
_UNIFIED: Final = "/sys/fs/cgroup"


def give_way(niceness: int) -> None:
    """Make this process, and what it starts, as nice as that, in a session of its own."""
    if os.getsid(0) != os.getpid():
        os.setsid()
    os.nice(niceness)
    try:
        _AUTOGROUP.write_text(str(niceness))
    except OSError:  # no autogroups, or another changed its own just now: it is nice enough then
        return


def take_what_is_idle() -> None:
    """Make this process one that no other ever waits for (Linux: SCHED_IDLE), if it has a session.

    A processor that does nothing else counts as idle: whoever wakes up is put on it and has it at
    once; and a disk serves others first (ioprio_set(2)). The session still has the share that its
    niceness gives it. Without, this process would have next to none on a busy machine: it must not.
    """
    if hasattr(os, "SCHED_IDLE") and sessions_have_shares():
        with suppress(OSError):  # a sandbox that forbids it
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def sessions_have_shares() -> bool:
    """Whether autogroups are in use, and this process is in no control group that replaces them."""
    try:
        if int(_ENABLED.read_text()) == 0:
            return False
        groups = [line.split(":", 2) for line in _CONTROL_GROUPS.read_text().splitlines()]
    except OSError:
        return False
    for _, controllers, path in groups:
        if not controllers and Path(f"{_UNIFIED}{path}/cpu.weight").exists():
            return False
        if "cpu" in controllers.split(",") and path != "/":
            return False
    return True
