"""Options of Spark's own format("kafka"): the connector is used as it is, only spelt once."""

from collections.abc import Mapping


def client_options(bootstrap: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return options for reads and writes alike.

    Args:
        bootstrap: HOST:PORT of brokers, separated by commas.
        properties: of Kafka's Java client, as its own documentation calls them.
    """
    prefixed = {f"kafka.{name}": value for name, value in properties.items()}
    return {**prefixed, "kafka.bootstrap.servers": bootstrap}
