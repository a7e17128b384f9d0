"""ToolRunner.java as a process: all stock tools in one JVM, for starting one takes a second."""

import itertools
import json
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.clients.java_programs import java_classes
from tests.clients.java_tools import java_tools
from tests.clients.processes import ProgramFailed

SOURCES: Final = tuple(
    Path(__file__).with_name(name) for name in ("ToolRunner.java", "OpenTransaction.java")
)
COMPILE_S: Final = 120.0
CLOSING_S: Final = 180.0
"""How much longer than its own time limit a call may take: hooks, and a busy machine."""
JVM: Final = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.awt.headless=true",
    "-Duser.timezone=UTC",
    "-Duser.language=en",
    "-Duser.country=US",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
    # the shutdown hooks that tools give to the JVM itself are run at the end of each call
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What one run of a tool came to.

    Attributes:
        code: exit code; None if its time was over, or if it goes on.
        took_s: seconds.
    """

    code: int | None
    stdout: str
    stderr: str
    took_s: float


@dataclass(slots=True)
class ToolRunner:
    """The running JVM; calls may be made from many threads."""

    process: "subprocess.Popen[str]"
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _waiting: dict[int, "Future[Mapping[str, Any]]"] = field(default_factory=dict)
    _writing: threading.Lock = field(default_factory=threading.Lock)

    def run(self, main: str, arguments: Sequence[str], *, stdin: str, timeout_s: float) -> Ran:
        """Run a tool to its end, or until its time is over.

        Args:
            main: the class with the tool's main method.
            arguments: as the shell would give them to it.
            stdin: all of its standard input.
            timeout_s: seconds.

        Raises:
            ProgramFailed: the JVM ended, or did not answer.
        """
        request = _request(main, arguments, stdin, timeout_s)
        return self._ask(next(self._numbers), request, timeout_s)

    def start(
        self, main: str, arguments: Sequence[str], *, stdin: str, ready: str, timeout_s: float
    ) -> tuple[int, Ran]:
        """Start a tool that goes on; return its number for `stop`, and what it has printed so far.

        Args:
            ready: a regular expression (Java's), for the output that is waited for.

        Raises:
            ProgramFailed: the JVM ended, or did not answer.
        """
        number = next(self._numbers)
        request = _request(main, arguments, stdin, timeout_s) | {"ready": ready}
        return number, self._ask(number, request, timeout_s)

    def stop(self, number: int) -> Ran:
        """End a started tool as SIGTERM would; return all that it has printed."""
        return self._ask(number, {"stop": True}, 0)

    def _ask(self, number: int, request: Mapping[str, Any], timeout_s: float) -> Ran:
        began_s = time.monotonic()
        answer: Future[Mapping[str, Any]] = Future()
        self._waiting[number] = answer
        assert self.process.stdin is not None
        with self._writing:
            self.process.stdin.write(json.dumps({"id": number, **request}) + "\n")
            self.process.stdin.flush()
        try:
            answered = answer.result(timeout_s + CLOSING_S)
        except TimeoutError as late:
            raise ProgramFailed(f"no answer in time: {request}") from late
        return Ran(
            code=answered.get("code"),
            stdout=answered["stdout"],
            stderr=answered["stderr"],
            took_s=time.monotonic() - began_s,
        )

    def read_answers(self) -> None:
        """Give each answer to the thread that waits for it, until the JVM ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            answered = json.loads(line)
            self._waiting.pop(answered["id"]).set_result(answered)
        for answer in self._waiting.values():
            answer.set_exception(ProgramFailed(f"the JVM ended with {self.process.wait()}"))


@contextmanager
def tool_runner(*programs: Path) -> Iterator[ToolRunner]:
    """Run the JVM for the length of a block; `programs` are more classes with a main, as source."""
    tools = java_tools("")
    of_tools, others = _parted(tools.jars)
    class_path = ":".join(map(str, (java_classes(*SOURCES, *programs), *others)))
    command = [tools.java, *JVM, "-cp", class_path, "ToolRunner", *map(str, of_tools)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        runner = ToolRunner(process)
        reader = threading.Thread(target=runner.read_answers)
        reader.start()
        try:
            yield runner
        finally:
            process.kill()
            reader.join()


def _parted(jars: Path) -> tuple[list[Path], list[Path]]:
    """Return the jars with the tools, which each call loads for itself, and all others."""
    of_tools = [*jars.glob("kafka-tools-[0-9]*.jar"), *jars.glob("kafka_2*.jar")]
    return of_tools, sorted(set(jars.glob("*.jar")) - set(of_tools))


def _request(main: str, arguments: Sequence[str], stdin: str, timeout_s: float) -> dict[str, Any]:
    return {
        "main": main,
        "arguments": list(arguments),
        "stdin": stdin,
        "timeout_ms": int(timeout_s * 1000),
    }
