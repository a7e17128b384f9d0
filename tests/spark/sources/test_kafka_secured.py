"""Spark's own format("kafka") over SASL_SSL: who may, and that no password is shown."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from spark.sources.kafka import client_options
from tests.spark.sources.kafka_logs import Batches, at
from tests.support.certificates import make_authority
from tests.support.sasl import ADMIN, PASSWORD, running_sasl_broker

PATIENCE_S = 240
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """A broker with one listener, and who vouches for it.

    Attributes:
        bootstrap: HOST:PORT.
        truststore: file.
    """

    bootstrap: str
    truststore: str

    def options(self, password: str = PASSWORD) -> dict[str, str]:
        login = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{SCRAM} required username="{ADMIN}" password="{password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.truststore,
        }
        return client_options(self.bootstrap, login)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    home = tmp_path_factory.mktemp("guarded")
    authority = make_authority()
    keystore = authority.issue(names=["localhost", "127.0.0.1"]).write_keystore(home / "broker.pem")
    configs = {
        "ssl.keystore.location": str(keystore),
        "ssl.keystore.type": "PEM",
        "auto.create.topics.enable": "true",
    }
    with running_sasl_broker(home / "data", protocol="SASL_SSL", configs=configs) as broker:
        truststore = authority.write_truststore(home / "trust.pem")
        yield Guarded(bootstrap=broker.bootstrap, truststore=str(truststore))


def test_batches_and_streams_with_a_password(
    session: SparkSession, guarded: Guarded, topic: str, tmp_path: Path
) -> None:
    # Given
    values = session.range(5).selectExpr("CAST(id AS STRING) AS value").coalesce(1)
    values.write.format("kafka").options(**guarded.options()).option("topic", topic).save()

    # When
    options = {**guarded.options(), "subscribe": topic, "startingOffsets": "earliest"}
    records = session.read.format("kafka").options(**options).load()
    batches = Batches()
    stream = session.readStream.format("kafka").options(**options).load().writeStream
    writer = stream.foreachBatch(batches).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert query.awaitTermination(PATIENCE_S)

    # Then
    assert at(records) == batches.at() == [(0, number, str(number)) for number in range(5)]

    # And the password is in no plan, no progress and no checkpoint
    plan = records._jdf.queryExecution().toString()
    checkpoint = "".join(
        file.read_text(errors="replace") for file in tmp_path.rglob("*") if file.is_file()
    )
    assert PASSWORD not in plan + str(query.lastProgress) + checkpoint


def test_a_wrong_password_is_refused_and_not_shown(session: SparkSession, guarded: Guarded) -> None:
    options = {**guarded.options("password-that-is-wrong"), "subscribe": "any"}
    with pytest.raises(Py4JJavaError, match="SaslAuthenticationException") as refused:
        session.read.format("kafka").options(**options).load().count()
    assert "password-that-is-wrong" not in str(refused.value)
