"""A bug that one partition of a Produce meets costs that partition, and nothing else."""

from pathlib import Path
from typing import Any

from kio.schema.errors import ErrorCode

from protocol.records import Record, build_batch
from tests.support.broker import start_broker
from tests.support.wire import WireClient, build, milliseconds, request_entities

PLAIN, COMPACTED, VALIDATED = "plain", "compacted", "validated"
VERSION = 9
LATEST = -1
NO_REGISTRY = "confluent.schema.registry.url=http://127.0.0.1:9"


def to_all() -> Any:
    module = request_entities(0, VERSION)
    batch = build_batch([Record(offset_delta=0, key=b"k", value=b"v")])
    partitions = (module.PartitionProduceData(index=0, records=batch),)
    return build(
        module,
        "ProduceRequest",
        transactional_id=None,
        acks=-1,
        timeout=milliseconds(60_000),
        topic_data=tuple(
            build(module, "TopicProduceData", name=name, partition_data=partitions)
            for name in (PLAIN, COMPACTED, VALIDATED)
        ),
    )


async def test_a_bug_costs_its_partition_and_no_other_is_appended_twice(tmp_path: Path) -> None:
    # Given a broker that trips over what is to be looked into, at once or later
    program = ("tests.support.tripping_broker",)
    broker = start_broker(tmp_path, "--set", NO_REGISTRY, program=program)
    try:
        async with await WireClient.connect(broker.bootstrap) as wire:
            await wire.create_topic(PLAIN)
            await wire.create_topic(COMPACTED, cleanup_policy="compact")
            await wire.create_topic(VALIDATED, confluent_value_schema_validation="true")

            # When a client sends it a batch for each of several topics
            answer = await wire.ask(to_all())

            # Then it is told of those that failed, so that it sends no other again
            codes = [topic.partition_responses[0].error_code for topic in answer.responses]
            failed = ErrorCode.unknown_server_error
            assert codes == [ErrorCode.none, failed, failed]
            ends = [
                (await wire.list_offset(topic.name, LATEST)).offset for topic in answer.responses
            ]
            assert ends == [1, 0, 0]
    finally:
        broker.kill()
    assert broker.log.read_text().count("bug in a handler") == 2
