"""DescribeCluster and DescribeTopicPartitions over the wire."""

import pytest
from kio.schema.errors import ErrorCode

from tests.broker.admin.questions import (
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC_PARTITIONS,
    create,
    partitions_of,
)
from tests.broker.admin.wire import Api, Wire

ALL_CLUSTER_OPERATIONS = 8096  # as Apache Kafka 4.3.1 without an authoriser answers
ALL_TOPIC_OPERATIONS = 3576
NOT_ASKED = -(2**31)
METADATA = 3


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_names_its_brokers(wire: Wire, version: int) -> None:
    api = Api(DESCRIBE_CLUSTER, version)

    answer = wire.ask(
        api.request(
            include_cluster_authorized_operations=True,
            endpoint_type=1,
            include_fenced_brokers=True,
        )
    )

    assert answer.error_code is ErrorCode.none
    assert len(answer.cluster_id) == 22
    assert answer.controller_id == 0
    (broker,) = answer.brokers
    assert (broker.broker_id, broker.host, broker.port) == (0, wire.host, wire.port)
    assert answer.cluster_authorized_operations == ALL_CLUSTER_OPERATIONS
    unasked = wire.ask(
        api.request(
            include_cluster_authorized_operations=False,
            endpoint_type=1,
            include_fenced_brokers=False,
        )
    )
    assert unasked.cluster_authorized_operations == NOT_ASKED


@pytest.mark.parametrize("version", [8, 10, 12])
@pytest.mark.parametrize("asked", [False, True])
def test_metadata_tells_what_a_client_may_do_if_it_asks(
    wire: Wire, name: str, version: int, asked: bool
) -> None:
    create(wire, name)
    api = Api(METADATA, version)
    topics = tuple(
        api.part("MetadataRequestTopic", name=one, topic_id=None) for one in (name, "no-such-topic")
    )
    answer = wire.ask(
        api.request(
            topics=topics,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=asked,
            include_topic_authorized_operations=asked,
        )
    )
    there, missing = answer.topics
    assert there.topic_authorized_operations == (ALL_TOPIC_OPERATIONS if asked else NOT_ASKED)
    assert missing.topic_authorized_operations == NOT_ASKED
    if version <= 10:
        expected = ALL_CLUSTER_OPERATIONS if asked else NOT_ASKED
        assert answer.cluster_authorized_operations == expected


def test_metadata_describes_a_topic_once_however_often_it_is_named(wire: Wire, name: str) -> None:
    # Given a topic
    topic_id = create(wire, name).topic_id
    api = Api(METADATA, 12)

    # When it is named again and again, and so is one that does not exist
    asked = [(name, None), (None, topic_id), ("no-such-topic", None), ("another", topic_id)]
    topics = tuple(
        api.part("MetadataRequestTopic", name=one, topic_id=its_id) for one, its_id in asked * 3
    )
    answer = wire.ask(
        api.request(
            topics=topics,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
    )

    # Then it is described by its name, by its id, and no more
    assert [one.name for one in answer.topics] == [name, name, "no-such-topic"]


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.mismatched_endpoint_type), (3, ErrorCode.unsupported_endpoint_type)],
)
def test_only_brokers_are_endpoints(wire: Wire, endpoint_type: int, code: ErrorCode) -> None:
    api = Api(DESCRIBE_CLUSTER, 2)
    answer = wire.ask(
        api.request(
            include_cluster_authorized_operations=False,
            endpoint_type=endpoint_type,
            include_fenced_brokers=False,
        )
    )
    assert (answer.error_code, answer.brokers) == (code, ())


def test_partitions_come_page_by_page(wire: Wire, name: str) -> None:
    # Given two topics
    one, two = f"{name}-1", f"{name}-2"
    topic_id = create(wire, one, partitions=3).topic_id
    create(wire, two, partitions=2)

    # When their partitions, and those of one that is not there, are read two at a time
    pages_of_two, pages = partitions_of(wire, two, f"{name}-0", one, limit=2)

    # Then they come in the order of their names, each partition once
    assert pages == 3
    read = [
        (topic.name, each.partition_index) for topic in pages_of_two for each in topic.partitions
    ]
    assert read == [(one, 0), (one, 1), (one, 2), (two, 0), (two, 1)]
    missing, first, *_ = pages_of_two
    assert (missing.name, missing.error_code) == (
        f"{name}-0",
        ErrorCode.unknown_topic_or_partition,
    )
    assert (first.topic_id, first.topic_authorized_operations) == (topic_id, ALL_TOPIC_OPERATIONS)
    assert all(each.leader_id == 0 for each in first.partitions)
    assert all(each.isr_nodes == each.replica_nodes == (0,) for each in first.partitions)


def test_no_names_are_all_topics(wire: Wire, name: str) -> None:
    create(wire, name, partitions=2)
    topics, _ = partitions_of(wire)
    assert name in {topic.name for topic in topics}


def test_a_name_that_cannot_be_is_told_from_one_that_is_not(wire: Wire) -> None:
    ((invalid, unknown), _) = partitions_of(wire, "a b", "no-such-topic")
    assert invalid.error_code is ErrorCode.invalid_topic_exception
    assert unknown.error_code is ErrorCode.unknown_topic_or_partition


def test_a_cursor_in_no_partition_is_refused_for_each_topic(wire: Wire, name: str) -> None:
    create(wire, name)
    api = Api(DESCRIBE_TOPIC_PARTITIONS, 0)
    cursor = api.part("Cursor", topic_name=name, partition_index=-1)
    topics = (api.part("TopicRequest", name=name),)
    answer = wire.ask(api.request(topics=topics, response_partition_limit=5, cursor=cursor))
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.invalid_request]


def test_who_asks_about_a_topic_gets_none_that_could_not_be_created(wire: Wire, name: str) -> None:
    # Given a topic, when a client asks about others, which are created then
    create(wire, f"{name}_a")
    api = Api(METADATA, 12)

    def asked(topic: str) -> ErrorCode:
        wanted = api.part("MetadataRequestTopic", name=topic, topic_id=None)
        answer = wire.ask(
            api.request(
                topics=(wanted,),
                allow_auto_topic_creation=True,
                include_topic_authorized_operations=False,
            )
        )
        found: ErrorCode = answer.topics[0].error_code
        return found

    # Then that is one whose name nothing is wrong with, and no other
    assert asked(f"{name}-a") is ErrorCode.none
    assert asked(f"{name}.a") is ErrorCode.invalid_topic_exception
    assert asked("__cluster_metadata") is ErrorCode.invalid_request
    assert asked(f"{name}.a") is ErrorCode.invalid_topic_exception

    # And none that monitors look for because Kafka keeps groups and transactions there
    for internal in ("__consumer_offsets", "__transaction_state"):
        assert asked(internal) is ErrorCode.unknown_topic_or_partition
        assert asked(internal) is ErrorCode.unknown_topic_or_partition  # it is not made behind it
