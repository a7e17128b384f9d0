"""The stock tools in one JVM that stays: starting one takes most of the time of a short call."""

from dataclasses import dataclass
from pathlib import Path

from tests.clients.java_tools import MAIN_CLASSES, JavaTools, java_tools
from tests.clients.processes import Output, ProgramFailed
from tests.oracle.tool_runner import ToolRunner


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedJavaTools(JavaTools):
    """The tools, pointed at one cluster; `run` has no process of its own."""

    runner: ToolRunner

    def run(
        self, tool: str, *arguments: str, stdin: bytes | Path = b"", timeout_s: float = 240
    ) -> Output:
        text = stdin.read_bytes() if isinstance(stdin, Path) else stdin
        ran = self.runner.run(
            MAIN_CLASSES[tool],
            ("--bootstrap-server", self.bootstrap, *arguments),
            stdin=text.decode(),
            timeout_s=timeout_s,
        )
        if ran.code != 0:
            raise ProgramFailed(f"{tool} {arguments}: {ran}")
        return Output(stdout=ran.stdout, stderr=ran.stderr)


def shared_java_tools(bootstrap: str, runner: ToolRunner) -> JavaTools:
    """Return the tools; `runner` runs them.

    Raises:
        ProgramMissing: there is no Java or Maven, and Debian's cannot be installed.
    """
    tools = java_tools(bootstrap)
    return SharedJavaTools(java=tools.java, jars=tools.jars, bootstrap=bootstrap, runner=runner)
