"""What must differ between two clusters is hidden: ids, times, places, widths of columns."""

import itertools
import re
from collections.abc import Mapping
from typing import Final

from tests.oracle.calls import Call
from tests.oracle.tool_runner import Ran

_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_ID: Final = r"[A-Za-z0-9_-]{22}"
_WORDS: Final = (  # what an error is, and in what words: these stand in a line of their own
    *[(r"(\b[\w.$]+(?:Exception|Error)): (.+)$", r"\1:\n| \2")] * 2,  # one may quote another
    (r"^(Error while executing [\w ]+ command :) (.+)$", r"\1\n| \2"),
    (r"^(Could not \w+ [\w.]+ to \w+\.) (.+)$", r"\1\n| \2"),
    (r"(Unregister broker request for broker ID \d+ failed:) (.+)$", r"\1\n| \2"),
)
MASKS: Final = tuple(
    (re.compile(pattern, re.MULTILINE), mask)
    for pattern, mask in (
        (r"^\s+(at \S+\(.*\)|\.\.\. \d+ more)\n", ""),  # the frames of a stack trace
        # how often a tool tells how far it is depends on how long it takes
        (r"^\d+ records sent, .* ms max latency\.\n", ""),
        # a client hears of its partitions before it knows the topic's name, or after
        (r"^.*\"partitions_assigned\",\"partitions\":\[\]\}\n", ""),
        (_UUID, "UUID"),
        (rf"(TopicId:\s*|Cluster ID: |ClusterId:\s*|[dD]irectoryId\"?[:=]\s*\"?){_ID}", r"\1ID"),
        (r"(\"size\":)[1-9]\d*", r"\1N"),
        (r"\"(/|file:/)[^\"]*\"", '"PLACE"'),
        (r"\b(adminclient|producer|consumer|admin-client)-\d+\b", r"\1-N"),
        (r"\bconsole-consumer-\d+\b", "console-consumer-N"),
        (r"\bperf-consumer-\d+\b", "perf-consumer-N"),
        (r"(?<![.])\b1[6-9]\d{11}\b", "TIME"),  # milliseconds, in this age
        (r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,:]\d+(Z|\+\d+)?", "TIME"),
        (r"(\"avg_throughput\":)[\d.]+", r"\1N"),
        (r"\bconsumer-(RUN\S*?)-\d+(?=-UUID|\s|$)", r"consumer-\1-N"),
        (rf"(?<!\S)(?=A{{22}}|\S*[a-z])(?=\S*[A-Z]){_ID}(?!\S)", "ID"),
        (r"\bEpoch:\s*\d+$", "Epoch: N"),
        (r"(Timed out waiting for a node assignment\. )?Call(: |\(callName=).*$", "TIMED OUT"),
        (r"[ \t]+", " "),
        *_WORDS,
        (r"\b127\.0\.0\.1([ :])\d+\b", r"HOST\1PORT"),
        (r" $", ""),
    )
)
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?([Ee][-+]?\d+)?|\bNaN\b")


def printed_lines(ran: Ran, call: Call, places: Mapping[str, str]) -> list[str]:
    """Return the exit code and the lines that a call has printed, without what must differ.

    Lines of the standard error begin with an exclamation mark.

    Args:
        places: what is found on this side only, and what is shown in its place.
    """
    code = "goes on" if ran.code is None else f"exit code {ran.code}"
    stderr = (f"! {line}" for line in masked(ran.stderr, call, places))
    return [code, *masked(ran.stdout, call, places), *stderr]


def masked(text: str, call: Call, places: Mapping[str, str]) -> list[str]:
    for place, mask in places.items():
        text = text.replace(place, mask)
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    if call.numbers_hidden:
        text = _NUMBER.sub("N", text)
    lines = [line for line in text.splitlines() if line.strip()]
    if call.numbers_hidden:  # a tool may report as often as there is time for
        lines = [line for line, _ in itertools.groupby(lines)]
    return sorted(lines) if call.order_hidden else lines
