"""The cluster: what it can do, where its logs are, its quorum and features."""

from typing import Any, Final

from tests.oracle.corpus_logs import FILLED
from tests.oracle.wire_cases import COMMON, Step, ask, case, given, topic
from tests.oracle.wire_values import NULL, Saved

API_VERSIONS: Final = 18
ALTER_REPLICA_LOG_DIRS: Final = 34
DESCRIBE_LOG_DIRS: Final = 35
DESCRIBE_CLUSTER: Final = 60
BROKERS, CONTROLLERS = 1, 2


def _versions(name: str = "client", version: str = "1.2") -> Step:
    return ask(API_VERSIONS, client_software_name=name, client_software_version=version)


API_VERSIONS_CASES: Final = (
    case(API_VERSIONS, "what there is", _versions()),
    case(
        API_VERSIONS,
        "invalid software",
        _versions(""),
        _versions("a b"),
        _versions("-a"),
        _versions("a", ""),
        _versions("a", "b c"),
        versions=(3, 4),
    ),
    case(API_VERSIONS, "null software", _versions(NULL), versions=(3, 4)),  # type: ignore[arg-type]
)


def _cluster(**said: Any) -> Step:
    return ask(DESCRIBE_CLUSTER, **said)


CLUSTER_CASES: Final = (
    case(DESCRIBE_CLUSTER, "brokers", _cluster()),
    case(
        DESCRIBE_CLUSTER,
        "authorized operations",
        _cluster(include_cluster_authorized_operations=True),
    ),
    case(
        DESCRIBE_CLUSTER,
        "fenced brokers, too",
        _cluster(include_fenced_brokers=True),
        versions=(2,),
    ),
    case(DESCRIBE_CLUSTER, "controllers", _cluster(endpoint_type=CONTROLLERS), versions=(1, 2)),
    case(
        DESCRIBE_CLUSTER,
        "unknown endpoints",
        _cluster(endpoint_type=0),
        _cluster(endpoint_type=9),
        _cluster(endpoint_type=-1),
        versions=(1, 2),
    ),
)


def _dirs(*topics: tuple[str, list[int]]) -> Step:
    asked = [{"topic": name, "partitions": partitions} for name, partitions in topics]
    return ask(DESCRIBE_LOG_DIRS, topics=asked)


LOG_DIR_CASES: Final = (
    case(DESCRIBE_LOG_DIRS, "a topic", FILLED, _dirs(("t-~", [0]))),
    case(
        DESCRIBE_LOG_DIRS,
        "several topics",
        topic("b-~", 2),
        topic("a-~"),
        _dirs(("b-~", [1, 0]), ("a-~", [0])),
    ),
    case(
        DESCRIBE_LOG_DIRS,
        "unknown topics and partitions",
        COMMON,
        _dirs(("no-~", [0]), ("t-~", [9, -1])),
    ),
    case(DESCRIBE_LOG_DIRS, "the same twice", COMMON, _dirs(("t-~", [0, 0]), ("t-~", [0]))),
    case(DESCRIBE_LOG_DIRS, "an invalid topic", _dirs(("a b-~", [0]), ("", [0]))),
    case(DESCRIBE_LOG_DIRS, "no partitions", COMMON, _dirs(("t-~", []))),
    case(DESCRIBE_LOG_DIRS, "no topics", ask(DESCRIBE_LOG_DIRS, topics=[])),
)


def _move(*partitions: int, name: str = "t-~", path: object = "/no/such/dir", **said: Any) -> Step:
    moved = [{"name": name, "partitions": partitions}]
    return ask(ALTER_REPLICA_LOG_DIRS, **{"dirs": [{"path": path, "topics": moved}], **said})


MOVE_CASES: Final = (
    case(ALTER_REPLICA_LOG_DIRS, "an unknown directory", COMMON, _move(0)),
    case(
        ALTER_REPLICA_LOG_DIRS,
        "a relative directory",
        COMMON,
        _move(0, path="data"),
        _move(0, path=""),
    ),
    case(ALTER_REPLICA_LOG_DIRS, "an unknown topic", _move(0, name="no-~")),
    case(ALTER_REPLICA_LOG_DIRS, "unknown partitions", COMMON, _move(9, -1)),
    case(ALTER_REPLICA_LOG_DIRS, "no partitions", COMMON, _move()),
    case(ALTER_REPLICA_LOG_DIRS, "no directories", _move(dirs=[])),
    case(ALTER_REPLICA_LOG_DIRS, "null directories", _move(dirs=NULL)),
    case(
        ALTER_REPLICA_LOG_DIRS,
        "where it is",
        COMMON,
        given(
            DESCRIBE_LOG_DIRS,
            topics=[{"topic": "t-~", "partitions": [0]}],
            save={"dir": "results.0.log_dir"},
        ),
        _move(0, path=Saved("dir")),
        _move(9, path=Saved("dir")),
        _move(0, path=Saved("dir"), name="no-~"),
    ),
)

CASES: Final = API_VERSIONS_CASES + CLUSTER_CASES + LOG_DIR_CASES + MOVE_CASES
