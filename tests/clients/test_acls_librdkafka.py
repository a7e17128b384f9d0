"""librdkafka (confluent-kafka), and what ACLs let it do."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not marked as re-exports
    AdminClient,
    ConfigResource,
    NewPartitions,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic

from tests.clients.logins import Login
from tests.clients.secured import ITERATIONS, Secured, acl, filter_of
from tests.clients.secured_confluent import (
    CALL_S,
    DONE,
    came_to,
    read,
    reader,
    send,
    sender,
    until_refused,
)

SCRAM: Final = ("SASL_SSL", "SCRAM-SHA-512")
TOPIC_REFUSED: Final = "TOPIC_AUTHORIZATION_FAILED"
GROUP_REFUSED: Final = "GROUP_AUTHORIZATION_FAILED"
TRANSACTION_REFUSED: Final = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
CLUSTER_REFUSED: Final = "CLUSTER_AUTHORIZATION_FAILED"


def test_what_a_certificate_says_is_who_the_acls_mean(secured: Secured) -> None:
    topic, home = secured.new_topic(), secured.home
    odd = "CN=Zo\u00eb\\, PhD,OU=Odd \\+ Ends,O=Example"
    known_as = {
        "CN=Alice,OU=Clients,O=Example": "Alice",
        "CN=SHOUTED,OU=Loud,O=Example": "shouted",
        odd: odd,
        "": "ANONYMOUS",
    }
    calls: dict[str, Callable[[], object]] = {}
    for at, subject in enumerate(known_as):
        login = secured.login("somebody", "SSL").but(keystore=None)
        if subject:
            certificate = secured.authority.issue(subject, names=())
            login = login.but(keystore=certificate.write_keystore(home / f"principal-{at}.pem"))
        calls[subject] = partial(send, login, topic, "x")
    assert came_to(calls) == dict.fromkeys(calls, TOPIC_REFUSED)

    secured.allow(
        *(rule for user in known_as.values() for rule in acl(user, "WRITE", "TOPIC", topic))
    )
    assert came_to(calls) == dict.fromkeys(calls, DONE)


def test_what_no_acl_allows_is_refused(secured: Secured) -> None:
    topic, user = secured.new_topic(), secured.new_user()
    login = secured.login(user, *SCRAM)
    seeing, group = secured.new_user(), f"group-of-{user}"
    secured.allow(
        *acl(seeing, "DESCRIBE", "TOPIC", topic),
        *acl(seeing, "READ", "GROUP", group),
        *acl(seeing, "DESCRIBE", "TRANSACTIONAL_ID", seeing),
        *acl(user, ["READ", "WRITE"], "TOPIC", topic),
    )
    seen = secured.login(seeing, *SCRAM)
    calls: dict[str, Callable[[], object]] = {
        "produce": partial(send, seen, topic, "x"),
        "produce to a topic that is not there": partial(send, seen, "missing", "x"),
        "consume": partial(read, seen, topic, group, 1),
        "consume a topic that is not there": partial(read, seen, "missing", group, 1),
        "group": partial(read, login, topic, group, 1),
        "transaction": partial(_begin, login, f"of-{user}"),
        "transaction that may be seen": partial(_begin, seen, seeing),
    }
    assert came_to(calls) == {
        "produce": TOPIC_REFUSED,
        "produce to a topic that is not there": TOPIC_REFUSED,
        "consume": TOPIC_REFUSED,
        "consume a topic that is not there": TOPIC_REFUSED,
        "group": GROUP_REFUSED,
        "transaction": TRANSACTION_REFUSED,
        "transaction that may be seen": TRANSACTION_REFUSED,
    }
    assert secured.end_offset(topic) == 0


def test_what_only_administrators_may_do_is_refused(secured: Secured) -> None:
    topic, user = secured.new_topic(), secured.new_user()
    admin = AdminClient(secured.login(user, *SCRAM).confluent())
    (anything,) = acl(user, "ALL", "BROKER", "kafka-cluster")
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, ITERATIONS)
    mine = UserScramCredentialUpsertion(user, info, b"another")
    (owner,) = (ConfigResource("topic", topic),)
    asked: dict[str, Mapping[Any, Any]] = {
        "create a topic": admin.create_topics([NewTopic(f"{topic}-of-mine", 1, 1)]),
        "delete a topic": admin.delete_topics([topic]),
        "add partitions": admin.create_partitions([NewPartitions(topic, 2)]),
        "describe configs": admin.describe_configs([owner]),
        "delete a group": admin.delete_consumer_groups(["not-mine"]),
        "create ACLs": admin.create_acls([anything]),
        "delete ACLs": admin.delete_acls([filter_of(anything)]),
        "set a password": admin.alter_user_scram_credentials([mine]),
    }
    calls = {name: partial(_only(futures).result, CALL_S) for name, futures in asked.items()}
    topics = ("create a topic", "delete a topic", "add partitions", "describe configs")
    assert came_to(calls) == {
        **dict.fromkeys(topics, TOPIC_REFUSED),
        "delete a group": GROUP_REFUSED,
        **dict.fromkeys(("create ACLs", "delete ACLs", "set a password"), CLUSTER_REFUSED),
    }


def _only(futures: Mapping[Any, Any]) -> Any:
    (future,) = futures.values()
    return future


def _begin(login: Login, transactional_id: str) -> Producer:
    producer = Producer({**login.confluent(), "transactional.id": transactional_id})
    producer.init_transactions(CALL_S)
    producer.begin_transaction()
    return producer


def test_rules_are_weighed_as_kafka_weighs_them(secured: Secured) -> None:
    topic, home = secured.new_topic("weighed"), "127.0.0.1"
    denied, prefixed, near, far, everybody = (secured.new_user() for _ in range(5))
    writing = partial(acl, operations="WRITE", resource="TOPIC", name=topic)
    secured.allow(
        *writing(denied),
        *acl(denied, "ALL", "TOPIC", "weigh", prefixed=True, denied=True),
        *acl(prefixed, "WRITE", "TOPIC", "weigh", prefixed=True),
        *writing(near, host=home),
        *writing(far, host="192.0.2.1"),
    )
    logins = {
        name: secured.login(name, *SCRAM) for name in (denied, prefixed, near, far, everybody)
    }
    calls: dict[str, Callable[[], object]] = {
        name: partial(send, login, topic, "x") for name, login in logins.items()
    }
    expected = {denied: TOPIC_REFUSED, prefixed: DONE, near: DONE, far: TOPIC_REFUSED}
    assert came_to(calls) == {**expected, everybody: TOPIC_REFUSED}

    # When everybody may write any topic, but for one
    anybody = [*acl("*", "WRITE", "TOPIC", "*"), *writing(near, denied=True)]
    secured.allow(*anybody)
    allowed = came_to(calls)
    secured.revoke(*anybody)

    # Then deny beats allow, whatever is more precise
    expected = {denied: TOPIC_REFUSED, prefixed: DONE, near: TOPIC_REFUSED, far: DONE}
    assert allowed == {**expected, everybody: DONE}


def test_what_is_revoked_ends_at_once(secured: Secured) -> None:
    user, topic = secured.new_user(), secured.new_topic()
    group, other_group = f"group-of-{user}", f"other-group-of-{user}"
    writes, reads = acl(user, "WRITE", "TOPIC", topic), acl(user, "READ", "TOPIC", topic)
    joins = acl(user, "READ", "GROUP", group)
    begins = acl(user, "WRITE", "TRANSACTIONAL_ID", user)
    secured.allow(*writes, *reads, *joins, *begins, *acl(user, "READ", "GROUP", other_group))
    login = secured.login(user, *SCRAM)
    with (
        sender(login) as send_one,
        reader(login, topic, group) as read_one,
        reader(login, topic, other_group) as read_otherwise,
    ):
        send_one(topic, "first")
        assert read_one() == read_otherwise() == "first"

        # When each right is taken away in turn
        send_one(topic, "second")
        secured.revoke(*joins)
        assert until_refused(read_one) == GROUP_REFUSED  # its commit is
        secured.revoke(*reads)
        assert until_refused(read_otherwise) == TOPIC_REFUSED
        transaction = _begin(login, user)
        transaction.produce(topic, "third")
        assert transaction.flush(CALL_S) == 0
        secured.revoke(*begins)
        with pytest.raises(KafkaException, match=TRANSACTION_REFUSED):
            transaction.commit_transaction(CALL_S)
        secured.revoke(*writes)
        assert until_refused(partial(send_one, topic, "fourth")) == TOPIC_REFUSED

    # Then it is there again when it is given back
    secured.allow(*writes)
    send(login, topic, "fifth")
