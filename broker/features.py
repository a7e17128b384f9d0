"""The features of this cluster (KIP-584), and what UpdateFeatures may ask of them.

Brokers have no state that depends on a level, so each feature has one level, now and always: the
newest. metadata.version is the level of the Kafka release whose answers these are; UIs show it as
the cluster's version, and no client of Kafka's looks at it. Features of Kafka that are not here
are level 0: share and streams groups, eligible leader replicas, a Raft quorum that can change.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from kio.schema.errors import ErrorCode

from broker.refusals import Refusal

FEATURES_EPOCH: Final = 0
FEATURES: Final = {"group.version": 1, "metadata.version": 30, "transaction.version": 2}
"""Levels: consumer groups (KIP-848), Kafka 4.3, epochs bumped by transactions (KIP-890)."""


class UpgradeType(IntEnum):
    """How a level may change (KIP-778)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    """A level that a feature shall have.

    Attributes:
        upgrade_type: an UpgradeType if the client knows its protocol.
    """

    feature: str
    level: int
    upgrade_type: int


def check_updates(updates: Sequence[FeatureUpdate]) -> None:
    """Check that all features have the levels that they shall have.

    Raises:
        Refusal: INVALID_UPDATE_VERSION: one has not, and none can be changed.
    """
    for update in updates:
        level = FEATURES.get(update.feature)
        if level is None:
            problem = f"This cluster has no feature {update.feature}."
        elif update.upgrade_type not in set(UpgradeType):
            problem = f"{update.upgrade_type} is no way to change {update.feature}."
        elif update.level != level:
            problem = f"{update.feature} is always {level} in this cluster, not {update.level}."
        else:
            continue
        raise Refusal(ErrorCode.invalid_update_version, problem)
