"""What can go wrong below the broker, named for what happened.

`broker/refusals.py` gives each its Kafka error code; a test keeps that table whole.
"""

from typing import Final


class StorageError(Exception):
    """Base of all conditions that storage reports."""


class UnknownPartition(StorageError):
    """The topic or partition does not exist (any more)."""


class TopicAlreadyExists(StorageError):
    """A live topic has that name."""


class InvalidPartitionCount(StorageError):
    """A topic's partition count can only grow."""


class ConfigsChanged(StorageError):
    """Something else is set by now than what a change rests on; nothing was changed."""


class OffsetOutOfRange(StorageError):
    """Before the log start offset or past the high watermark."""


class OutOfOrderSequence(StorageError):
    """A gap in an idempotent producer's sequence numbers, or 0 did not come first (KIP-98)."""


class InvalidProducerEpoch(StorageError):
    """A producer with a newer epoch has written to the partition (KIP-98)."""


class InvalidTransactionState(StorageError):
    """A batch of a transaction that its partition is not in, or one of none in an open one."""


class InvalidProducerIdMapping(StorageError):
    """No transactional id has that producer id (any more)."""


class FencedLeaderEpoch(StorageError):
    """Another broker has written to the partition as its leader since; nothing was appended."""


class CommitOutcomeUnknown(StorageError):
    """No answer in time: the batch may still be, or become, part of the log."""


class BufferClosed(StorageError):
    """The broker is shutting down; nothing was or will be appended."""


class ObjectStoreUnavailable(StorageError):
    """The object store gave no answer in time; retrying is safe."""


class BadObject(StorageError):
    """This one object cannot be had, though the store answers: what is around it can be."""


class ObjectMissing(BadObject):
    """The index names an object, or a range of it, that the store does not have."""


class ObjectUnreadable(BadObject):
    """The store does not give an object out that it may well have: never take it for deleted."""


MAY_HAVE_MOVED: Final = (ObjectMissing, ObjectUnreadable)
"""Of what the index named before: its row may have been swapped for another since."""


class ObjectConflict(StorageError):
    """Another object is already stored under that path."""


class CorruptObject(BadObject):
    """Stored bytes are not the record batches that the index promises."""


class MetadataUnavailable(StorageError):
    """Postgres gave no answer in time; a write may or may not have happened."""


class MetadataWentBack(MetadataUnavailable):
    """Postgres has forgotten what it said was durable: it is a backup, or a standby that lagged."""


class NothingWritten(MetadataUnavailable):
    """Postgres did not do it, and will not: a row was held for too long, or nobody was free."""


class RowsHeld(NothingWritten):
    """Somebody held a row for too long, or each held one that the other waited for."""


class PostgresNotTrusted(NothingWritten):
    """There is no connection of the kind that the DSN wants: its sslmode and certificates tell."""


class PostgresRefused(NothingWritten):
    """No such host or database, no such user with that password and rights, no session of ours."""


class OlderBrokersAlive(NothingWritten):
    """The tables cannot become those of this version while brokers of an older one use them."""


class TableInUse(NothingWritten):
    """The tables cannot become those of this version while somebody uses one for long."""


class WrongStore(StorageError):
    """The object store belongs to another cluster than the metadata database."""


class IdentityTaken(StorageError):
    """A broker that is alive advertises the same address; nobody was registered."""


class BrokerDisplaced(StorageError):
    """Another process has this broker's identity, or a newer version came; this one has to end."""


class DatabaseNotSupported(RuntimeError):
    """The database was migrated by other code, which this one cannot work beside."""
