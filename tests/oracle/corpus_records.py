"""How records are written in the corpus: batches, producers, and topics that hold some."""

from typing import Any, Final

from tests.oracle.wire_cases import PATIENT_MS, Given, given
from tests.oracle.wire_values import Saved

PRODUCE: Final = 0
FETCH: Final = 1


def produced(*batches: object, name: str = "t-~", partition: int = 0, **said: Any) -> Given:
    """Write batches, one request for all of them must do: they are to be in one partition."""
    return given(PRODUCE, **writing(*batches, name=name, partition=partition, **said))


def writing(*batches: object, name: str = "t-~", partition: int = 0, **said: Any) -> dict[str, Any]:
    data = [{"index": partition, "records": batch} for batch in batches]
    topic_data = [{"name": name, "topic_id": Saved(name, None), "partition_data": data}]
    return {"acks": -1, "timeout": PATIENT_MS, "topic_data": topic_data} | said
