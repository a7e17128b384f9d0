"""Which error codes are definite: nothing was appended, nor ever will be (the R6 contract).

Apache Kafka promises less: a NOT_LEADER_OR_FOLLOWER of it may hide an append (KAFKA-13574). Ours
must not, so a value is judged an aborted read if it is seen after any of these codes.
"""

from collections.abc import Iterable
from typing import Final

DEFINITE: Final = frozenset(
    {
        2,  # CORRUPT_MESSAGE
        3,  # UNKNOWN_TOPIC_OR_PARTITION
        6,  # NOT_LEADER_OR_FOLLOWER
        10,  # MESSAGE_TOO_LARGE
        14,  # COORDINATOR_LOAD_IN_PROGRESS
        15,  # COORDINATOR_NOT_AVAILABLE
        16,  # NOT_COORDINATOR
        17,  # INVALID_TOPIC_EXCEPTION
        18,  # RECORD_LIST_TOO_LARGE
        21,  # INVALID_REQUIRED_ACKS
        22,  # ILLEGAL_GENERATION
        24,  # INVALID_GROUP_ID
        25,  # UNKNOWN_MEMBER_ID
        27,  # REBALANCE_IN_PROGRESS
        29,  # TOPIC_AUTHORIZATION_FAILED
        30,  # GROUP_AUTHORIZATION_FAILED
        31,  # CLUSTER_AUTHORIZATION_FAILED
        32,  # INVALID_TIMESTAMP
        33,  # UNSUPPORTED_SASL_MECHANISM
        34,  # ILLEGAL_SASL_STATE
        35,  # UNSUPPORTED_VERSION
        36,  # TOPIC_ALREADY_EXISTS
        37,  # INVALID_PARTITIONS
        38,  # INVALID_REPLICATION_FACTOR
        42,  # INVALID_REQUEST
        43,  # UNSUPPORTED_FOR_MESSAGE_FORMAT
        44,  # POLICY_VIOLATION
        45,  # OUT_OF_ORDER_SEQUENCE_NUMBER
        47,  # INVALID_PRODUCER_EPOCH
        48,  # INVALID_TXN_STATE
        49,  # INVALID_PRODUCER_ID_MAPPING
        50,  # INVALID_TRANSACTION_TIMEOUT
        53,  # TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        58,  # SASL_AUTHENTICATION_FAILED
        74,  # FENCED_LEADER_EPOCH
        75,  # UNKNOWN_LEADER_EPOCH
        76,  # UNSUPPORTED_COMPRESSION_TYPE
        79,  # MEMBER_ID_REQUIRED
        87,  # INVALID_RECORD
        90,  # PRODUCER_FENCED
        100,  # UNKNOWN_TOPIC_ID
    }
)


def definite(codes: Iterable[int]) -> bool:
    """Tell whether all attempts of an operation were refused for sure.

    One that was not may have succeeded whatever a later one was told: a retry that is refused
    with OUT_OF_ORDER_SEQUENCE_NUMBER does not undo it.
    """
    return all(code in DEFINITE for code in codes)
