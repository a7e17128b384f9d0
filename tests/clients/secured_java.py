"""The Java clients and tools against a cluster that may refuse them, all in one JVM."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.clients.java_tools import MAIN_CLASSES
from tests.clients.logins import Login
from tests.oracle.tool_runner import Ran, ToolRunner

SOURCE: Final = Path(__file__).with_name("SecuredClient.java")
DONE: Final = "done"
REFUSED: Final = "refused"
CALL_S: Final = 240.0
CONCURRENT: Final = 12
_TOOLS: Final = {**MAIN_CLASSES, "kafka-acls": "org.apache.kafka.tools.AclCommand"}
_PATIENT: Final = {  # what is refused does not wait for any of these, and a busy machine may
    "request.timeout.ms": "30000",
    "default.api.timeout.ms": "60000",
    "max.block.ms": "60000",
    "delivery.timeout.ms": "60000",
    "linger.ms": "0",
}
SOON: Final = {  # a stranger is not answered, and need not wait for a minute
    "request.timeout.ms": "7500",
    "default.api.timeout.ms": "15000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaOutcome:
    """What SecuredClient came to.

    Attributes:
        lines: what it printed before.
        names: DONE; or the classes of the exception and of its causes, outermost first.
    """

    lines: Sequence[str]
    names: tuple[str, ...]

    def __str__(self) -> str:
        """Return DONE, or the first name that says more than that something happened."""
        return next((name for name in self.names if name not in _WRAPPERS), DONE)


_WRAPPERS: Final = ("ExecutionException", "KafkaException")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuredJava:
    """The running JVM.

    Attributes:
        home: where each call has a directory of its own for its properties.
    """

    runner: ToolRunner
    home: Path
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def properties(self, login: Login, **more: str) -> Path:
        """Write a login as a properties file."""
        file = login.java_file(self.home / str(next(self.numbers)))
        with file.open("a") as lines:
            lines.writelines(f"{name}={value}\n" for name, value in {**_PATIENT, **more}.items())
        return file

    def act(self, login: Login, *action: str, **more: str) -> JavaOutcome:
        """Have SecuredClient do one thing, with more properties."""
        arguments = (str(self.properties(login, **more)), *action)
        ran = self.runner.run("SecuredClient", arguments, stdin="", timeout_s=CALL_S)
        *lines, last = ran.stdout.splitlines() or [ran.stderr]
        word, _, names = last.partition("\t")
        assert word in (DONE, REFUSED), f"{action}: {ran}"
        return JavaOutcome(lines=lines, names=tuple(names.split()))

    def came_to(self, calls: Mapping[str, Callable[[], JavaOutcome]]) -> dict[str, str]:
        """Make all calls at the same time."""
        with ThreadPoolExecutor(CONCURRENT) as pool:
            outcomes = pool.map(lambda call: str(call()), calls.values())
            return dict(zip(calls, outcomes, strict=True))

    def tool(self, tool: str, login: Login, *arguments: str, stdin: str = "") -> Ran:
        """Run a tool with a login in the file of its --command-config."""
        connection = ("--bootstrap-server", login.bootstrap)
        config = ("--command-config", str(self.properties(login)))
        return self.runner.run(
            _TOOLS[tool], (*connection, *config, *arguments), stdin=stdin, timeout_s=CALL_S
        )
