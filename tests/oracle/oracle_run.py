"""Both clusters asked the same: every call in order, first lines then differences."""

import difflib
import re
import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from tests.oracle.calls import BOOTSTRAP_FLAGS, BOOTSTRAP_LAST, MAIN_CLASSES, Call
from tests.oracle.masks import printed_lines
from tests.oracle.tool_runner import Ran, ToolRunner


@dataclass(slots=True, kw_only=True)
class Side:
    """One cluster, and what its calls have saved.

    Attributes:
        word: what `$run` stands for; the same on both sides, for orders follow from names.
    """

    runner: ToolRunner
    bootstrap: str
    files: Path
    word: str
    saved: dict[str, str] = field(default_factory=dict)
    going_on: dict[str, int] = field(default_factory=dict)

    def answers(self, calls: Iterable[Call]) -> list["Answered"]:
        """Make the calls one after the other."""
        return [self._answer(call) for call in calls]

    def _answer(self, call: Call) -> "Answered":
        give_up_s = time.monotonic() + call.timeout_s
        answered = self._answer_once(call)
        while call.repeats and not answered.shows(call.shows) and time.monotonic() < give_up_s:
            answered = self._answer_once(call)
        return answered

    def _answer_once(self, call: Call) -> "Answered":
        ran = self._run(call)
        if call.saves and (found := re.search(call.saves, ran.stdout, re.MULTILINE | re.DOTALL)):
            self.saved |= found.groupdict()
        places = {self.bootstrap: "HOST:PORT", str(self.files): "FILES", self.word: "RUN"}
        lines = printed_lines(ran, call, places)
        return Answered(ran=ran, lines=lines)

    def _run(self, call: Call) -> Ran:
        if call.stops:
            return self.runner.stop(self.going_on.pop(call.stops))
        for name, text in call.files.items():
            (self.files / name).write_text(self._filled(text))
        main, arguments = MAIN_CLASSES[call.tool], self._arguments(call)
        stdin = self._filled(call.stdin)
        if not call.ready:
            return self.runner.run(main, arguments, stdin=stdin, timeout_s=call.timeout_s)
        self.going_on[call.name], ran = self.runner.start(
            main, arguments, stdin=stdin, ready=call.ready, timeout_s=call.timeout_s
        )
        return ran

    def _arguments(self, call: Call) -> list[str]:
        words = [self._filled(word) for word in shlex.split(call.arguments)]
        broker = [BOOTSTRAP_FLAGS.get(call.tool, "--bootstrap-server"), self.bootstrap]
        return [*words, *broker] if call.tool in BOOTSTRAP_LAST else [*broker, *words]

    def _filled(self, text: str) -> str:
        names = {"run": self.word, "bootstrap": self.bootstrap, "files": str(self.files)}
        return Template(text).safe_substitute(names | self.saved)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a call came to on one side; its lines are masked."""

    ran: Ran
    lines: Sequence[str]

    def shows(self, pattern: str) -> bool:
        """Whether a pattern, which may say where lines begin and end, is among the lines."""
        return re.search(pattern, "\n".join(self.lines), re.MULTILINE) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What a call came to on both sides.

    Attributes:
        only_kafka, only_ours: lines that the other one has not, or not in that place.
    """

    call: Call
    kafka: Answered
    ours: Answered
    only_kafka: Sequence[str]
    only_ours: Sequence[str]

    @property
    def misses(self) -> str:
        """Return why the call did not do at Apache Kafka what it is made for; empty if it did."""
        if self.kafka.ran.code != self.call.code:
            return f"Apache Kafka's tool ended with {self.kafka.ran.code}, not {self.call.code}"
        if not self.kafka.shows(self.call.shows):
            return f"Apache Kafka's tool does not print {self.call.shows!r}"
        return ""


def compared(call: Call, kafka: Answered, ours: Answered) -> Compared:
    count = 1 if call.lines_hidden else None
    lines, other_lines = kafka.lines[:count], ours.lines[:count]
    only_kafka: list[str] = []
    only_ours: list[str] = []
    matcher = difflib.SequenceMatcher(a=lines, b=other_lines, autojunk=False)
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        if tag != "equal":
            only_kafka += lines[start:end]
            only_ours += other_lines[other_start:other_end]
    return Compared(call=call, kafka=kafka, ours=ours, only_kafka=only_kafka, only_ours=only_ours)
