"""Confluent's strategies for naming subjects, as topics' configs name them."""

from enum import StrEnum
from typing import Final

_PACKAGE: Final = "io.confluent.kafka.serializers.subject."


class SubjectStrategy(StrEnum):
    """How the name of a subject is made, by the simple name of the class that configs name."""

    TOPIC = "TopicNameStrategy"
    RECORD = "RecordNameStrategy"
    TOPIC_RECORD = "TopicRecordNameStrategy"


DEFAULT_STRATEGY: Final = _PACKAGE + SubjectStrategy.TOPIC

STRATEGY_NAMES: Final = tuple(
    prefix + strategy for prefix in (_PACKAGE, "") for strategy in SubjectStrategy
)
"""What a config may say: the name of the class with its package or without."""


def strategy_of(config: str) -> SubjectStrategy:
    """Return what one of STRATEGY_NAMES means."""
    return SubjectStrategy(config.rpartition(".")[2])
