"""GroupMember.java, compiled once per machine against the jars of the stock tools."""

import functools
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.clients.cache import filled_once
from tests.clients.java_tools import java_tools
from tests.clients.processes import program, run
from tests.groups.settings import Settings, java_properties

SOURCE_FILE: Final = Path(__file__).with_name("GroupMember.java")
COMPILE_S: Final = 120


def java_command(settings: Settings) -> Sequence[str]:
    """Return the command that starts a Java member.

    Raises:
        ProgramMissing: there is no Java, or no compiler, and Debian's cannot be installed.
    """
    assert not settings.copy_to, "a Java member does not copy"
    tools = java_tools(settings.bootstrap)
    argument = {
        "properties": java_properties(settings),
        "topic": settings.topic,
        "metadata": settings.metadata,
        "auto_commit": settings.auto_commit,
        "commit_ms": settings.commit_ms,
        "assigned": settings.assigned,
    }
    return (*tools.command("GroupMember", classes=_classes()), json.dumps(argument))


@functools.cache
def _classes() -> Path:
    version = hashlib.sha256(SOURCE_FILE.read_bytes()).hexdigest()[:12]

    def compile_into(directory: Path) -> None:
        javac = program("javac", debian_package="openjdk-17-jdk-headless")
        jars = f"{java_tools('').jars}/*"
        options = ("-Xlint:all", "-cp", jars, "-d", str(directory))
        run([javac, *options, str(SOURCE_FILE)], timeout_s=COMPILE_S)

    return filled_once(f"group-member-{version}", compile_into)
