"""Apache Kafka's own authorizer, asked what it decides: StandardDecisions.java as a process."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from protocol.acl import Acl
from tests.broker.security.acl_model import SUPER_USER, Question
from tests.clients.java_programs import java_program

SOURCE: Final = Path(__file__).with_name("StandardDecisions.java")
COMPILE_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class StandardAuthorizer:
    """The running JVM."""

    process: "subprocess.Popen[str]"

    def decisions(
        self, acls: Sequence[Acl], questions: Sequence[Question], *, allow_everyone: bool
    ) -> list[tuple[bool, bool]]:
        """Return of each question whether that is allowed, and whether it is for any resource."""
        request = {
            "super_users": SUPER_USER,
            "allow_everyone": allow_everyone,
            "acls": [
                (
                    *(acl.pattern.resource_type, acl.pattern.pattern_type, acl.pattern.name),
                    *(acl.rule.principal, acl.rule.host),
                    *(acl.rule.operation, acl.rule.permission),
                )
                for acl in acls
            ],
            "questions": [
                (one.user, one.host, one.operation, one.resource_type, one.name)
                for one in questions
            ],
        }
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answers = json.loads(self.process.stdout.readline())
        return list(zip(answers[::2], answers[1::2], strict=True))


@contextmanager
def standard_authorizer() -> Iterator[StandardAuthorizer]:
    """Run the program for the length of a block."""
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    java, *rest = java_program(SOURCE)
    with subprocess.Popen(
        [java, quiet, *rest], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield StandardAuthorizer(process)
        finally:
            process.kill()
