"""Transactions: listed and described, finished and open, aborted from outside, hanging and not."""

from typing import Final

from tests.oracle.calls import HASTY, calls_of

_console_consumer: Final = calls_of("console-consumer")
_get_offsets: Final = calls_of("get-offsets")
_open_transaction: Final = calls_of("open-transaction")
_producer_perf_test: Final = calls_of("producer-perf-test")
_topics: Final = calls_of("topics")
_transactional_message_copier: Final = calls_of("transactional-message-copier")
_transactions: Final = calls_of("transactions")


_WAITING: Final = {"hasty": HASTY}
CALLS: Final = (
    _topics(
        "transactions-topic",
        "--create --topic $run-transacted --partitions 1",
        "Created topic",
        given=True,
    ),
    _topics(
        "transactions-copy",
        "--create --topic $run-copied --partitions 1",
        "Created topic",
        given=True,
    ),
    _producer_perf_test(
        "transactions-finished",
        "--topic $run-transacted --num-records 3 --payload-file $files/payload"
        " --throughput -1 --transactional-id $run-finished --transaction-duration-ms 60000",
        "^N records sent",
        files={"payload": "paid\n"},
        numbers_hidden=True,
        given=True,
    ),
    _open_transaction(
        "transactions-open",
        "$run-transacted $run-open",
        r"^open at \d+$",
        saves=r"^open at (?P<first_offset>\d+)",
        given=True,
    ),
    _transactions(
        "transactions-list", "list", "^RUN-open N N Ongoing", order_hidden=True, numbers_hidden=True
    ),
    _transactions("transactions-list-long", "list --duration-filter 600000", "^TransactionalId"),
    _transactions(
        "transactions-list-some",
        "list --transactional-id-pattern $run-fin.*",
        "^RUN-finished N ",
        numbers_hidden=True,
    ),
    _transactions(
        "transactions-list-bad-pattern",
        "list --transactional-id-pattern '['",
        "INVALID_REGULAR",
        code=1,
    ),
    _transactions(
        "transactions-describe-finished",
        "describe --transactional-id $run-finished",
        "CompleteCommit",
        numbers_hidden=True,
    ),
    _transactions(
        "transactions-describe-open",
        "describe --transactional-id $run-open",
        "Ongoing",
        numbers_hidden=True,
    ),
    _transactions(
        "transactions-describe-unknown",
        "describe --transactional-id $run-no",
        "could not be found",
        code=1,
    ),
    _transactions(
        "transactions-describe-producers",
        "describe-producers --topic $run-transacted --partition 0",
        "^N N N",
        numbers_hidden=True,
        order_hidden=True,
    ),
    _transactions(
        "transactions-describe-producers-unknown",
        "--command-config $files/hasty describe-producers --topic $run-no --partition 0",
        "on leader: TIMED OUT",
        code=1,
        files=_WAITING,
    ),
    _transactions(
        "transactions-describe-producers-unknown-broker",
        "--command-config $files/hasty describe-producers --topic $run-transacted --partition 0"
        " --broker-id 7",
        "on broker 7: TIMED OUT",
        code=1,
        files=_WAITING,
    ),
    _transactions(
        "transactions-find-hanging-none", "find-hanging --broker-id 0", "^Topic Partition"
    ),
    _transactions(
        "transactions-find-hanging-of-topic",
        "find-hanging --topic $run-transacted --max-transaction-timeout 15",
        "^Topic Partition",
    ),
    _console_consumer(
        "transactions-read-committed",
        "--topic $run-transacted --partition 0 --offset earliest --max-messages 1000"
        " --timeout-ms 1000 --isolation-level read_committed",
        "Processed a total of 3 messages",
    ),
    _transactions(
        "transactions-abort-wrong-offset",
        "abort --topic $run-transacted --partition 0 --start-offset 7000000",
        "Could not find any open transactions",
        code=1,
    ),
    _transactions(
        "transactions-abort-unknown-topic",
        "--command-config $files/hasty abort --topic $run-no --partition 0 --start-offset 0",
        "TIMED OUT",
        code=1,
        files=_WAITING,
    ),
    _transactions(
        "transactions-abort",
        "abort --topic $run-transacted --partition 0 --start-offset $first_offset",
        "exit code 0",
    ),
    _transactions(
        "transactions-force-terminate",
        "forceTerminateTransaction --transactionalId $run-open",
        "exit code 0",
    ),
    _transactions(
        "transactions-force-terminate-unknown",
        "forceTerminateTransaction --transactionalId $run-no",
        "exit code 0",
    ),
    _transactions(
        "transactions-describe-terminated",
        "describe --transactional-id $run-open",
        "RUN-open N N Empty",
        numbers_hidden=True,
    ),
    _transactional_message_copier(
        "transactional-message-copier",
        "--input-topic $run-transacted --input-partition 0 --output-topic $run-copied"
        " --consumer-group $run-copier --transactional-id $run-copier --max-messages 3"
        " --transaction-size 2",
        "ShutdownComplete",
        numbers_hidden=True,
    ),
    _get_offsets("get-offsets-of-copies", "--topic $run-copied", "^RUN-copied:0:"),
)
