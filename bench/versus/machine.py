"""On what it was measured."""

import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

import psutil

from bench.versus.installation import installed_version
from tests.clients.java_tools import java_tools
from tests.clients.kcat import kcat
from tests.clients.processes import run

GIB: Final = 1 << 30
PACKAGES: Final = ("streamhouse", "confluent-kafka", "uvloop", "asyncpg")


def machine() -> Mapping[str, object]:
    """Return cores, memory, kernel, and versions of what takes part."""
    java = run([java_tools("").java, "-version"], timeout_s=30).stderr.splitlines()[0]
    client = next(
        line
        for line in run([kcat("").path, "-V"], timeout_s=30).stdout.splitlines()
        if line.startswith("Version")
    )
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / GIB, 1),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "python": installed_version(),
        "java": java,
        "kcat": client,
        "apache_kafka": "4.3.1",
        **{package: version(package) for package in PACKAGES},
    }
