"""Records: written, read, counted, deleted, and measured by the tools that load a cluster."""

from typing import Final

from tests.oracle.calls import HASTY, Call, calls_of

_console_consumer: Final = calls_of("console-consumer")
_console_producer: Final = calls_of("console-producer")
_consumer_perf_test: Final = calls_of("consumer-perf-test")
_delete_records: Final = calls_of("delete-records")
_e2e_latency: Final = calls_of("e2e-latency")
_get_offsets: Final = calls_of("get-offsets")
_producer_perf_test: Final = calls_of("producer-perf-test")
_replica_verification: Final = calls_of("replica-verification")
_topics: Final = calls_of("topics")
_verifiable_consumer: Final = calls_of("verifiable-consumer")
_verifiable_producer: Final = calls_of("verifiable-producer")

_FORMATTING: Final = " ".join(
    f"--formatter-property print.{what}=true"
    for what in ("key", "headers", "partition", "offset", "timestamp")
)

CALLS: Final = (
    _topics(
        "records-topic",
        "--create --topic $run-records --partitions 3 --replication-factor 1",
        "Created topic",
        given=True,
    ),
    _console_producer(
        "console-producer",
        "--topic $run-records --reader-property parse.key=true --reader-property key.separator=:",
        "exit code 0",
        stdin="".join(f"k{number}:v{number}\n" for number in range(20)),
        given=True,
    ),
    _console_producer(
        "console-producer-headers",
        "--topic $run-records --reader-property parse.key=true"
        " --reader-property parse.headers=true --compression-codec zstd",
        "exit code 0",
        stdin="trace:1,span:2\tkey\tvalue with headers\n",
        given=True,
    ),
    _console_producer(
        "console-producer-acks-0",
        "--topic $run-records --sync --request-required-acks 0"
        " --command-property enable.idempotence=false --reader-property parse.key=true",
        "exit code 0",
        stdin="k0\tnot acknowledged\n",
    ),
    _console_producer(
        "console-producer-too-large",
        "--topic $run-records --sync --max-memory-bytes 33554432"
        " --command-property max.request.size=8388608 --message-send-max-retries 1",
        "RecordTooLargeException",
        stdin="x" * 2_000_000 + "\n",
        code=1,
    ),
    _console_producer(
        "console-producer-bad-topic",
        "--topic $run/records --sync --max-block-ms 2000",
        "InvalidTopicException",
        stdin="lost\n",
        code=1,
    ),
    _console_producer(
        "console-producer-without-key",
        "--topic $run-records --reader-property parse.key=true",
        "No key separator found",
        stdin="no separator in here\n",
        code=1,
    ),
    _console_consumer(
        "console-consumer",
        f"--topic $run-records --from-beginning --max-messages 22 --timeout-ms 60000 {_FORMATTING}",
        "Processed a total of 22 messages",
        order_hidden=True,
    ),
    _console_consumer(
        "console-consumer-partition",
        "--topic $run-records --partition 0 --offset 2 --max-messages 2"
        f" --timeout-ms 60000 {_FORMATTING}",
        "Processed a total of 2 messages",
    ),
    _console_consumer(
        "console-consumer-from-the-end",
        "--topic $run-records --partition 0 --offset latest --timeout-ms 1000",
        "Processed a total of 0 messages",
    ),
    _console_consumer(
        "console-consumer-out-of-range",
        "--topic $run-records --partition 0 --offset 100000 --max-messages 1"
        " --timeout-ms 60000 --command-property auto.offset.reset=earliest",
        "Processed a total of 1 messages",
    ),
    _console_consumer(
        "console-consumer-unknown-partition",
        "--topic $run-records --partition 99 --timeout-ms 1000",
        "Processed a total of 0 messages",
    ),
    _console_consumer(
        "console-consumer-unknown-topic",
        "--topic $run-never --from-beginning --timeout-ms 1000"
        " --command-property allow.auto.create.topics=false",
        "Processed a total of 0 messages",
    ),
    _console_consumer(
        "console-consumer-bad-topic",
        "--topic '$run records' --timeout-ms 2000",
        "InvalidTopicException",
    ),
    _get_offsets("get-offsets", "--topic $run-records", "^RUN-records:0:"),
    _get_offsets(
        "get-offsets-earliest", "--topic $run-records --time earliest", "^RUN-records:0:0$"
    ),
    _get_offsets(
        "get-offsets-max-timestamp",
        "--topic-partitions $run-records:1 --time max-timestamp",
        "^RUN-records:1:",
    ),
    _get_offsets(
        "get-offsets-earliest-local",
        "--topic $run-records --time earliest-local",
        "^RUN-records:0:",
    ),
    _get_offsets(
        "get-offsets-latest-tiered", "--topic $run-records --time latest-tiered", "exit code 0"
    ),
    _get_offsets("get-offsets-by-time", "--topic $run-records --time 1000", "^RUN-records:0:0$"),
    _get_offsets(
        "get-offsets-after-the-last", "--topic $run-records --time 9000000000000", "exit code 0"
    ),
    _get_offsets(
        "get-offsets-one-partition", "--topic $run-records --partitions 1", "^RUN-records:1:"
    ),
    _get_offsets("get-offsets-by-pattern", "--topic '$run-rec.*'", "^RUN-records:1:"),
    _get_offsets(
        "get-offsets-unknown-topic",
        "--topic $run-unknown",
        "Could not match any topic-partitions",
        code=1,
    ),
    _get_offsets(
        "get-offsets-unknown-partition",
        "--topic-partitions $run-records:99",
        "Could not match any topic-partitions",
        code=1,
    ),
    _delete_records(
        "delete-records",
        "--offset-json-file $files/delete.json",
        "low_watermark",
        files={
            "delete.json": '{"version": 1, "partitions": ['
            '{"topic": "$run-records", "partition": 0, "offset": 1},'
            '{"topic": "$run-records", "partition": 1, "offset": -1}]}'
        },
        order_hidden=True,
    ),
    _delete_records(
        "delete-records-again",
        "--offset-json-file $files/again.json",
        "low_watermark: 1",
        files={
            "again.json": '{"version": 1, "partitions": ['
            '{"topic": "$run-records", "partition": 0, "offset": 0}]}'
        },
    ),
    _delete_records(
        "delete-records-out-of-range",
        "--offset-json-file $files/range.json",
        "OffsetOutOfRange",
        files={
            "range.json": '{"version": 1, "partitions": ['
            '{"topic": "$run-records", "partition": 0, "offset": 100000}]}'
        },
    ),
    _delete_records(
        "delete-records-unknown-topic",
        "--offset-json-file $files/unknown.json --command-config $files/hasty",
        "TimeoutException",
        files={
            "hasty": HASTY,
            "unknown.json": '{"version": 1, "partitions": ['
            '{"topic": "$run-unknown", "partition": 0, "offset": 1}]}',
        },
    ),
    _delete_records(
        "delete-records-twice-the-same",
        "--offset-json-file $files/same.json",
        "duplicate",
        files={
            "same.json": '{"version": 1, "partitions": ['
            '{"topic": "$run-records", "partition": 0, "offset": 1},'
            '{"topic": "$run-records", "partition": 0, "offset": 2}]}'
        },
        code=1,
    ),
    _get_offsets(
        "get-offsets-after-delete-records",
        "--topic $run-records --time earliest",
        "^RUN-records:0:1$",
    ),
    _producer_perf_test(
        "producer-perf-test",
        "--topic $run-load --num-records 2000 --record-size 100 --throughput -1",
        "^N records sent",
        numbers_hidden=True,
    ),
    _producer_perf_test(
        "producer-perf-test-transactions",
        "--topic $run-load --num-records 2000 --record-size 100 --throughput -1"
        " --transactional-id $run-perf --transaction-duration-ms 100",
        "^N records sent",
        numbers_hidden=True,
    ),
    _consumer_perf_test(
        "consumer-perf-test",
        "--topic $run-load --num-records 3000 --timeout 60000 --group $run-perf",
        "^TIME, TIME, N",
        numbers_hidden=True,
    ),
    _e2e_latency(
        "e2e-latency",
        "--topic $run-latency --num-records 50 --producer-acks all --record-size 100",
        "Percentiles",
        numbers_hidden=True,
    ),
    _verifiable_producer(
        "verifiable-producer", "--topic $run-verifiable --max-messages 20", '"acked":20'
    ),
    _verifiable_consumer(
        "verifiable-consumer",
        "--topic $run-verifiable --group-id $run-verifiable --max-messages 20"
        " --reset-policy earliest",
        '"records_consumed"',
    ),
    _verifiable_consumer(
        "verifiable-consumer-new-protocol",
        "--topic $run-verifiable --group-id $run-verifiable-new --max-messages 20"
        " --reset-policy earliest --group-protocol consumer",
        '"records_consumed"',
    ),
    _replica_verification(
        "replica-verification",
        "--topics-include $run-load --report-interval-ms 500 --max-wait-ms 100",
        "max lag is",
        ready="max lag is",
        code=None,
        numbers_hidden=True,
    ),
    Call(
        name="replica-verification-stopped",
        stops="replica-verification",
        shows="max lag is N",
        code=None,
        numbers_hidden=True,
    ),
)
