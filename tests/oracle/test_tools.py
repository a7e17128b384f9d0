"""Every stock tool prints here what it prints at Apache Kafka, but for differences.md."""

from pathlib import Path

from tests.oracle.apache_kafka import ApacheKafka
from tests.oracle.tools import run_tools


def test_the_stock_tools_print_what_they_print_at_apache_kafka(
    apache_kafka: ApacheKafka, tmp_path: Path
) -> None:
    report = run_tools(tmp_path, kafka=apache_kafka.bootstrap)

    assert not report.failures, "\n".join(report.failures)
