"""How tests are dealt out to the processes that run them: what stays together, what goes first."""

from typing import Final

from xdist.scheduler import LoadScopeScheduling

# What these share for a whole session costs much, or may be there only once: a Spark session and
# all flights in memory; Apache Kafka. All of Spark's tests in one process would be the last to end.
TOGETHER: Final = (
    "tests/clients/",
    "tests/spark/sources/",
    "tests/spark/sql/",
    "tests/spark/",
    "tests/oracle/",
)

# The longest come first, so that no process ends long before another. The rest follows by name.
FIRST: Final = (
    "tests/spark/test_",
    "tests/clients/",
    "tests/oracle/",
    "tests/crash/",
    "tests/spark/",  # not at once: all would wait for what one prepares for Spark
    "tests/transactions/",
    "tests/groups/",
    "tests/broker/",
    "tests/streams/",
    "tests/storage/",
    "tests/contracts/",
)


def unit(node_id: str) -> str:
    """Return what a test belongs to that runs in one process: a file, or one of TOGETHER."""
    return next((folder for folder in TOGETHER if node_id.startswith(folder)), _file(node_id))


def place(node_id: str) -> tuple[int, str]:
    """Return what tests are sorted by; those of one file have the same."""
    position = next((at for at, name in enumerate(FIRST) if node_id.startswith(name)), len(FIRST))
    return position, _file(node_id)


def _file(node_id: str) -> str:
    return node_id.partition("::")[0]


class UnitScheduling(LoadScopeScheduling):  # type: ignore[misc] # (it has no types)
    """Hands out whole units, in the order in which their tests were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)
