"""differences.md as a judge: what it lists passes, and it lists nothing that does not occur."""

import dataclasses

from tests.oracle.calls import Call
from tests.oracle.differences import read_differences, stale, titles, unlisted
from tests.oracle.masks import printed_lines
from tests.oracle.oracle_run import Answered, Compared, compared
from tests.oracle.tool_runner import Ran

LISTED = """# About

## Ports

- calls: `list-*`, `describe`
- Apache Kafka: `^port 1$`
- here: `^port \\d$`

A reason.
"""


def answered(*lines: str) -> Answered:
    text = "\n".join(lines)
    return Answered(ran=Ran(code=0, stdout=text, stderr="", took_s=0), lines=lines)


def call_of(name: str, kafka: str, ours: str) -> Compared:
    call = Call(name=name, shows="")
    return compared(call, answered("exit code 0", kafka), answered("exit code 0", ours))


def test_a_listed_difference_is_explained() -> None:
    differences = read_differences(LISTED)
    run = [call_of("list-all", "port 1", "port 2"), call_of("describe", "port 1", "port 3")]

    assert [unlisted(one, differences) for one in run] == [[], []]
    assert titles(run[0], differences) == ["Ports"]
    assert stale(differences, run) == []


def test_another_line_and_another_call_are_not() -> None:
    differences = read_differences(LISTED)

    assert unlisted(call_of("list-all", "port 1", "broken"), differences) == ["+ broken"]
    assert unlisted(call_of("create", "port 1", "port 1 2"), differences) == [
        "- port 1",
        "+ port 1 2",
    ]


def test_what_is_listed_must_occur_in_every_call_that_is_named() -> None:
    differences = read_differences(LISTED)
    same = call_of("describe", "port 1", "port 1")

    assert stale(differences, [call_of("list-all", "port 1", "port 2"), same]) == [
        "Ports: no such difference in describe"
    ]
    assert stale(differences, [call_of("list-all", "", "port 2"), same]) == [
        "Ports: no such difference in describe",
        "Ports: no line with ^port 1$",
    ]


def test_an_exit_code_is_compared_even_where_lines_are_hidden() -> None:
    hidden = Call(name="watch", shows="", lines_hidden=True)

    same = compared(hidden, answered("exit code 0", "a"), answered("exit code 0", "b"))
    other = compared(hidden, answered("exit code 0", "a"), answered("exit code 1", "b"))

    assert (same.only_kafka, same.only_ours) == ([], [])
    assert (other.only_kafka, other.only_ours) == (["exit code 0"], ["exit code 1"])


def test_ids_places_and_times_are_masked_and_errors_are_not() -> None:
    stdout = (
        "Topic: r0a1b2-orders\tTopicId: D-4nEbYLRrq4K5yJnk4aGw\tReplicas: 0\n"
        "broker at 127.0.0.1:40123 since 1795316398121\n"
    )
    stderr = (
        "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors"
        ".TopicExistsException: Topic 'r0a1b2-orders' already exists.\n"
        "\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
    )
    ran = Ran(code=1, stdout=stdout, stderr=stderr, took_s=0)
    places = {"127.0.0.1:40123": "HOST:PORT", "r0a1b2": "RUN"}
    call = Call(name="any", shows="")

    assert printed_lines(ran, call, places) == [
        "exit code 1",
        "Topic: RUN-orders TopicId: ID Replicas: 0",
        "broker at HOST:PORT since TIME",
        "! java.util.concurrent.ExecutionException:",
        "! | org.apache.kafka.common.errors.TopicExistsException:",
        "! | Topic 'RUN-orders' already exists.",
    ]
    counted = dataclasses.replace(call, numbers_hidden=True)
    assert "N" in printed_lines(ran, counted, places)[1]
