"""Quotas from the command line."""

import json
from collections.abc import Callable

import pytest

from tests.streamctl.conftest import Streamctl
from tests.streamctl.forks import Ended


def quotas(streamctl: Streamctl) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    listed = json.loads(streamctl.well("quota", "list", "--format", "json").text)
    return [(one["entity"], one["limits"]) for one in listed]


def test_quotas_are_set_listed_and_deleted(streamctl: Streamctl) -> None:
    # Given quotas of a user, of a client id of all other users, and of an address
    streamctl.well("quota", "set", "--user", "alice", "--produce-rate", "10MB")
    streamctl.well("quota", "set", "--user", "alice", "--fetch-rate", "20MB")
    streamctl.well(
        *("quota", "set", "--user-default", "--client-id", "etl", "--request-percentage", "50")
    )
    streamctl.well("quota", "set", "--ip", "10.0.0.7", "--connection-rate", "5")

    # When they are listed, then each has its limits
    alice = ({"user": "alice"}, {"producer_byte_rate": 10e6, "consumer_byte_rate": 20e6})
    etl: tuple[dict[str, str | None], dict[str, float]] = (
        {"user": None, "client-id": "etl"},
        {"request_percentage": 50.0},
    )
    address = ({"ip": "10.0.0.7"}, {"connection_creation_rate": 5.0})
    found = quotas(streamctl)
    assert all(one in found for one in (alice, etl, address))
    shown = streamctl.well("quota", "list").text
    assert "produce 10.0 MB/s" in shown
    assert "(default)" in shown

    # And when one limit, and whole entities are deleted, then the rest stays
    streamctl.well("quota", "delete", "--user", "alice", "--only", "consumer_byte_rate")
    assert ({"user": "alice"}, {"producer_byte_rate": 10e6}) in quotas(streamctl)
    streamctl.well("quota", "delete", "--user", "alice")
    streamctl.well("quota", "delete", "--user-default", "--client-id", "etl")
    streamctl.well("quota", "delete", "--ip", "10.0.0.7")
    assert quotas(streamctl) == []
    assert "no such quota" in streamctl("quota", "delete", "--user", "alice").err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("set", "--produce-rate", "1MB"), "whose quota?"),
        (("set", "--user", "alice"), "no limit given"),
        (("set", "--user", "a", "--user-default", "--fetch-rate", "1"), "do not go together"),
        (("set", "--ip", "10.0.0.7", "--user", "a", "--fetch-rate", "1"), "--ip stands alone"),
        (("set", "--user", "a", "--fetch-rate", "infinite"), "quota delete"),
        (("set", "--user", "a", "--fetch-rate", "0"), "more than 0"),
        (("set", "--user", "a", "--request-percentage", "0"), "more than 0"),
        (("set", "--user", "a", "--request-percentage", "-1"), "more than 0"),
        (("set", "--user", "a", "--mutation-rate", "nan"), "more than 0"),
        (("set", "--user", "a", "--fetch-rate", "ten"), "is not a size: write it like"),
        (("set", "--user", "a", "--connection-rate", "5"), "--connection-rate is for --ip"),
        (("set", "--ip", "10.0.0.7", "--fetch-rate", "1MB"), "--ip has only --connection-rate"),
    ],
)
def test_a_mistake_is_explained(
    run_here: Callable[..., Ended], arguments: tuple[str, ...], said: str
) -> None:
    ended = run_here("quota", *arguments)
    assert ended.exit_code == 2
    assert said in ended.err
    assert "1048576, infinite" not in " ".join(ended.err.replace("│", " ").split())
