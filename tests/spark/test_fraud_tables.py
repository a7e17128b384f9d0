"""Alerts against plain Python, whole and in batches."""

from datetime import timedelta
from decimal import Decimal
from typing import Final

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from spark.jobs.fraud import FraudFold
from spark.tables.fraud import Rules
from spark.tables.late import Patience
from tests.spark import shopflow_answers as answers
from tests.spark import shopflow_fraud
from tests.spark.shopflow import in_batches, order_events, records

RULES: Final = Rules(
    patience=Patience(delay=timedelta(minutes=5)),
    large_amount=Decimal(190),
    rapid_count=3,
    rapid_within=timedelta(minutes=2),
)


@pytest.mark.parametrize("count", [1, 3], ids=["one batch", "three batches"])
def test_alerts_are_those_of_plain_python(session: SparkSession, count: int) -> None:
    # Given events of a few customers
    events = order_events(11, 320, customers=6)
    found = answers.verdicts(events, RULES.patience)
    answer = shopflow_fraud.alerts(events, found, RULES)
    assert {name.partition(":")[0] for name in answer} == {"large", "rapid"}

    # When they are watched
    fold = FraudFold(decisions=RULES)
    carried = {name: session.createDataFrame([], schema) for name, schema in fold.carried.items()}
    rows = []
    for batch in in_batches(3, events, count):
        judged = fold.judge(records(session, batch), carried).localCheckpoint()
        outcome = fold.step(judged, carried)
        rows += [
            (row["alert_id"], row["payments"])
            for row in outcome.rows["alerts"].select("alert_id", "payments").collect()
        ]
        carried = {name: table.localCheckpoint() for name, table in outcome.carried.items()}

    # Then the alerts are those of a loop over the log, each once
    schema = "alert_id string, payments int"
    expected = session.createDataFrame([*answer.items()], schema)
    assertDataFrameEqual(session.createDataFrame(rows, schema), expected)

    # And no more is carried than what later payments may be close to
    recent = carried["recent"].count()
    assert 0 < recent < len(events) / 2
