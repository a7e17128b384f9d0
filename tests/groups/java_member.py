"""GroupMember.java, compiled once per machine against the jars of the stock tools."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.clients.java_programs import java_classes
from tests.clients.java_tools import java_tools
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
    return (*tools.command("GroupMember", classes=java_classes(SOURCE_FILE)), json.dumps(argument))
