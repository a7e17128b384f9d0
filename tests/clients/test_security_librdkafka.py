"""librdkafka (confluent-kafka) and a cluster that asks who is there."""

import itertools
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import pytest

from tests.clients.logins import MECHANISMS, PASSWORDS, SASL_PROTOCOLS, Login
from tests.clients.refused_logins import (
    AUTHENTICATION,
    STRANGER,
    TLS,
    check_refused,
    refused_logins,
)
from tests.clients.secured import Secured, acl, traffic
from tests.clients.secured_confluent import (
    CALL_S,
    DONE,
    came_to,
    heard_refusal,
    read,
    reader,
    reauthentications,
    refusal,
    send,
    sender,
    until_refused,
)

RECORDS: Final = tuple("abc")
SCRAM: Final = ("SASL_SSL", "SCRAM-SHA-512")
TWICE: Final = 2


def _send_and_read(login: Login, topic: str, group: str) -> None:
    send(login, topic, *RECORDS)
    assert tuple(read(login, topic, group, len(RECORDS))) == RECORDS


def test_every_mechanism_lets_in_who_may_do_exactly_that(secured: Secured) -> None:
    logins = {("SSL", ""), *itertools.product(SASL_PROTOCOLS, MECHANISMS)}
    calls: dict[str, Callable[[], object]] = {}
    for protocol, mechanism in sorted(logins):
        user, topic = secured.new_user(), secured.new_topic()
        secured.allow(*traffic(user, topic, f"group-of-{user}"))
        login = secured.login(user, protocol, mechanism)
        calls[f"{protocol} {mechanism}"] = partial(_send_and_read, login, topic, f"group-of-{user}")
    assert came_to(calls) == dict.fromkeys(calls, DONE)


def test_every_wrong_login_is_refused(secured: Secured, strict: Secured) -> None:
    expected = {
        AUTHENTICATION: frozenset({"_AUTHENTICATION"}),
        TLS: frozenset({"_SSL", "_TRANSPORT"}),
        STRANGER: frozenset({"_TRANSPORT", "_TIMED_OUT"}),
    }
    check_refused(refused_logins(secured, strict), refusal, expected)


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_nobody_learns_which_users_there_are(secured: Secured, mechanism: str) -> None:
    login = secured.login(secured.new_user(), "SASL_PLAINTEXT", mechanism)
    wrong = (login.but(password="wrong"), login.but(user="nobody"))
    with ThreadPoolExecutor() as pool:
        (code, text), (other_code, other_text) = pool.map(heard_refusal, wrong)
    assert code == other_code == "_AUTHENTICATION"
    assert _without_times(text) == _without_times(other_text)


def _without_times(text: str) -> str:
    return re.sub(r"\(after \d+ms", "", text)


def test_who_is_deleted_or_has_another_password_is_out_when_asked_again(
    secured: Secured, strict: Secured
) -> None:
    for cluster in (secured, strict):
        topic, deleted, changed = cluster.new_topic(), cluster.new_user(), cluster.new_user()
        cluster.allow(
            *(rule for user in (deleted, changed) for rule in acl(user, "WRITE", "TOPIC", topic))
        )
        logins = [cluster.login(user, *SCRAM) for user in (deleted, changed)]
        with sender(logins[0]) as by_deleted, sender(logins[1]) as by_changed:
            by_deleted(topic, "x")
            by_changed(topic, "x")

            # When one user is deleted, and another has a new password
            cluster.delete_user(deleted)
            cluster.set_password(changed, "another")

            # Then they are let in no more
            assert [refusal(login) for login in logins] == ["_AUTHENTICATION"] * 2
            send(logins[1].but(password="another"), topic, "x")
            if cluster is strict:  # as in Kafka: who is in stays in, if nobody asks again
                by_deleted(topic, "x")
                by_changed(topic, "x")
            else:
                for sends in (by_deleted, by_changed):
                    assert until_refused(partial(sends, topic, "x")) == "_AUTHENTICATION"


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "OAUTHBEARER"])
def test_who_authenticates_again_under_load_loses_and_repeats_nothing(
    secured: Secured, mechanism: str
) -> None:
    user, topic = secured.new_user(), secured.new_topic()
    group = f"group-of-{user}"
    secured.allow(*traffic(user, topic, group))
    login = secured.login(user, "SASL_SSL", mechanism)
    told, sent_again = reauthentications(f"producer-of-{user}")
    told_too, read_again = reauthentications(f"consumer-of-{user}")
    idempotent = {"enable.idempotence": True, **told}
    values: list[str] = []
    with (
        sender(login, **idempotent) as send_one,
        reader(login, topic, group, **told_too) as read_one,
    ):
        deadline = time.monotonic() + CALL_S
        while min(sent_again.count, read_again.count) < TWICE:
            send_one(topic, str(len(values)))
            values.append(read_one())
            assert time.monotonic() < deadline, (sent_again.count, read_again.count)
    assert values == [str(number) for number in range(len(values))]
    assert secured.end_offset(topic) == len(values)
