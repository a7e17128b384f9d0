"""Schema validation at produce: what a topic's records must begin with, as in Confluent Server.

A topic with confluent.value.schema.validation (or key) takes only values that begin with the id of
a schema that is registered under the topic's subject. The object behind the id is not looked at. A
batch with another value is INVALID_RECORD as a whole; null passes.

While the registry does not answer, confluent.schema.validation.on.registry.failure tells: accept
appends unchecked; refuse answers NOT_ENOUGH_REPLICAS, which says that nothing was appended and
which all clients repeat until their delivery timeout, without asking for new metadata each time.
(A code of its own does not exist: clients do not repeat what they do not know.)
"""

from kio.schema.errors import ErrorCode

from broker.configs.broker_config_table import ACCEPT
from broker.later_appends import LaterAppends, RepeatLater
from broker.record_scans import RecordScans
from broker.schemas.registry_client import RegistryUnavailable
from broker.schemas.schema_metrics import ValidationMetrics
from broker.schemas.schema_registry import SchemaRegistry
from broker.schemas.schema_subjects import topic_subject
from broker.topics import KnownTopic
from protocol.errors import InvalidRecords
from protocol.schema_ids import schema_ids
from storage.configs.subject_strategies import SubjectStrategy


class SchemaValidation:
    """Checks batches against the schema registry.

    Args:
        on_failure: broker_config_table.ACCEPT or REFUSE what the registry does not answer for.

    Attributes:
        appends: those that wait for `check`.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        scans: RecordScans,
        *,
        on_failure: str,
        metrics: ValidationMetrics,
    ) -> None:
        self._registry = registry
        self._scans = scans
        self._accepts = on_failure == ACCEPT
        self._metrics = metrics
        self.appends = LaterAppends()

    async def check(self, topic: KnownTopic, batch: memoryview, sender: str) -> None:
        """Return if a batch, which came on the connection `sender`, may be appended to its topic.

        Raises:
            InvalidRecords: a record without the id of a schema, or with one that is not registered
                under the topic's subject; or very many schemas.
            CorruptBatch, DecompressedTooLarge: the records cannot be read.
            RepeatLater: the registry does not answer, and that is refused.
        """
        for_keys, for_values = topic.config.key_schemas, topic.config.value_schemas
        try:
            ids = await self._scans.scan(
                sender,
                schema_ids,
                batch,
                of_keys=for_keys is not None,
                of_values=for_values is not None,
            )
        except InvalidRecords:
            self._metrics.refused("no_id")
            raise
        asked = [
            (schema_id, strategy, is_key)
            for found, strategy, is_key in (
                (ids.keys, for_keys, True),
                (ids.values, for_values, False),
            )
            if strategy is not None
            for schema_id in sorted(found)
        ]
        try:
            for schema_id, strategy, is_key in asked:
                subjects = await self._subjects(topic.topic.name, schema_id, strategy, is_key)
                await self._check_id(schema_id, subjects)
        except RegistryUnavailable as unavailable:
            if not self._accepts:
                self._metrics.refused("registry")
                reason = f"the schema registry does not answer: {unavailable}"
                raise RepeatLater(ErrorCode.not_enough_replicas, reason) from unavailable
            self._metrics.accepted_unchecked()  # without a wait for each of its other schemas

    async def _subjects(
        self, topic: str, schema_id: int, strategy: SubjectStrategy, is_key: bool
    ) -> frozenset[str]:
        """Return the subjects one of which the schema must be registered under."""
        if strategy is SubjectStrategy.TOPIC:
            return frozenset((topic_subject(topic, is_key=is_key),))
        names = await self._registry.names(schema_id) if schema_id >= 0 else frozenset()
        if strategy is SubjectStrategy.RECORD:
            return names
        return frozenset(f"{topic}-{name}" for name in names)

    async def _check_id(self, schema_id: int, subjects: frozenset[str]) -> None:
        asks = schema_id >= 0 and bool(subjects)
        if asks and await self._registry.is_registered(schema_id, subjects):
            return
        self._metrics.refused("unknown")
        wanted = " or ".join(sorted(subjects)[:3]) or "the name of its type"
        raise InvalidRecords(f"schema {schema_id} is not registered under {wanted}")
