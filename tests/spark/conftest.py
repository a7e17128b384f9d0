"""What tests with Spark share; `session` and `broker` are those of all tests."""

from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from spark.log_location import LogLocation
from tests.clients.confluent import Confluent
from tests.clients.flights import Flight, flights_file, read_flights
from tests.clients.spark_session import Spark
from tests.support.broker import BrokerProcess

# pyspark closes the file that collect() and toPandas() read from, but not the socket under it;
# assertDataFrameEqual imports pyspark.pandas, which has something to say on time zones.
KNOWN_OF_PYSPARK: Final = (
    r"ignore:unclosed <socket.socket .*raddr=\('127.0.0.1':ResourceWarning",
    "ignore:'PYARROW_IGNORE_TIMEZONE':UserWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.filterwarnings(*KNOWN_OF_PYSPARK))


@pytest.fixture(scope="session")
def bootstrap(broker: BrokerProcess) -> str:
    return broker.bootstrap


@pytest.fixture(scope="session")
def location(broker: BrokerProcess) -> LogLocation:
    """Where the log of `broker` is, for what reads and writes it without brokers."""
    return LogLocation.of({"data": str(broker.log.parent)})


@pytest.fixture(scope="session")
def location_options(broker: BrokerProcess) -> dict[str, str]:
    """The same as options of format("streamhouse")."""
    return {"data": str(broker.log.parent)}


@pytest.fixture(scope="session")
def confluent(bootstrap: str) -> Confluent:
    return Confluent(bootstrap=bootstrap)


@pytest.fixture(scope="session")
def spark(bootstrap: str, session: SparkSession) -> Spark:
    """Spark's stock connector on `broker`."""
    return Spark(session=session, bootstrap=bootstrap)


@pytest.fixture(scope="session")
def flights_path() -> Path:
    return flights_file()


@pytest.fixture(scope="session")
def flights(flights_path: Path) -> list[Flight]:
    return read_flights(flights_path)
