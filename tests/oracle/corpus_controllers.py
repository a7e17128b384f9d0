"""What controllers do: DescribeQuorum, UpdateFeatures, UnregisterBroker."""

from typing import Any, Final

from tests.oracle.wire_cases import COMMON, PATIENT_MS, Case, Step, ask, case
from tests.oracle.wire_values import NULL

DESCRIBE_QUORUM: Final = 55
UPDATE_FEATURES: Final = 57
UNREGISTER_BROKER: Final = 64
METADATA_LOG: Final = "__cluster_metadata"


def _quorum(*partitions: int, name: object = METADATA_LOG, **said: Any) -> Step:
    asked = [{"topic_name": name, "partitions": [{"partition_index": at} for at in partitions]}]
    return ask(DESCRIBE_QUORUM, **{"topics": asked, **said})


QUORUM_CASES: Final = (
    case(DESCRIBE_QUORUM, "the metadata log", _quorum(0)),
    case(DESCRIBE_QUORUM, "another topic", COMMON, _quorum(0, name="t-~")),
    case(DESCRIBE_QUORUM, "an unknown topic", _quorum(0, name="no-~")),
    case(DESCRIBE_QUORUM, "unknown partitions", _quorum(1), _quorum(-1)),
    case(DESCRIBE_QUORUM, "the same twice", _quorum(0, 0)),
    case(DESCRIBE_QUORUM, "no partitions", _quorum()),
    case(DESCRIBE_QUORUM, "no topics", _quorum(topics=[])),
    case(DESCRIBE_QUORUM, "null topics", _quorum(topics=NULL)),
    case(DESCRIBE_QUORUM, "null name", _quorum(0, name=NULL)),
)


def _features(*updates: tuple[object, int, int], **said: Any) -> Step:
    """Each update is a feature, its level, and 1 to upgrade or 2 and 3 to downgrade."""
    wanted = [
        {
            "feature": name,
            "max_version_level": level,
            "upgrade_type": kind,
            "allow_downgrade": kind > 1,
        }
        for name, level, kind in updates
    ]
    return ask(UPDATE_FEATURES, **{"timeout": PATIENT_MS, "feature_updates": wanted, **said})


def _feature(name: str, *updates: tuple[object, int, int]) -> Case:
    dry = _features(*updates, validate_only=True)
    return case(UPDATE_FEATURES, name, dry, versions=(1, 2))


FEATURE_CASES: Final = (
    _feature("a known feature at its level", ("group.version", 1, 1)),
    _feature("an unknown feature", ("no.such.feature", 1, 1)),
    _feature("a level to come", ("group.version", 99, 1)),
    _feature("a negative level", ("group.version", -1, 1)),
    _feature("a lower level as an upgrade", ("group.version", 0, 1)),
    _feature("an unknown way", ("group.version", 1, 9)),
    _feature("a feature without a name", ("", 1, 1)),
    _feature("the same feature twice", ("group.version", 1, 1), ("group.version", 1, 1)),
    _feature("good and bad together", ("group.version", 1, 1), ("no.such.feature", 1, 1)),
    _feature("metadata to come", ("metadata.version", 99, 1)),
    case(UPDATE_FEATURES, "an unknown feature really", _features(("no.such.feature", 1, 1))),
    case(UPDATE_FEATURES, "a known feature really", _features(("group.version", 1, 1))),
    case(UPDATE_FEATURES, "a level to come really", _features(("group.version", 99, 1))),
    case(UPDATE_FEATURES, "nothing", _features()),
    case(UPDATE_FEATURES, "null features", _features(feature_updates=NULL)),
)


UNREGISTER_CASES: Final = (
    case(UNREGISTER_BROKER, "an unknown broker", ask(UNREGISTER_BROKER, broker_id=4711)),
    case(UNREGISTER_BROKER, "a negative broker", ask(UNREGISTER_BROKER, broker_id=-1)),
)

CASES: Final = QUORUM_CASES + FEATURE_CASES + UNREGISTER_CASES
