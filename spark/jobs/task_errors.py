"""What failed in a task, or while a read was planned, without the stacks of two languages."""

import re
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from spark.sinks.batch_tables import CarriedMissing
from spark.sinks.lake_batches import TakenOver
from spark.sinks.parquet_tables import PointerMoved
from spark.sources.registry import RegistryUnavailable
from storage.errors import StorageError

FAILURES: Final = (
    PySparkException,
    Py4JError,
    ConnectionError,
    EOFError,
    StorageError,
    RegistryUnavailable,
    CarriedMissing,
    PointerMoved,
    TakenOver,
)
"""What may end a job that is right: shown as a line. All else is a mistake in the program."""

JAVA_GONE: Final = "Spark's Java has ended"
_JAVA: Final = "\n\nJVM stacktrace"
_OURS: Final = re.compile(r"^(?:spark|storage|protocol)\.[\w.]*?(\w+): (.+)$", re.MULTILINE)
_PYTHON: Final = re.compile(r"^(ValueError|UnknownTopic|NoSuchTime): (.+)$", re.MULTILINE)
_CALLING: Final = re.compile(r"An error occurred while calling \S+\n: ")
_CAUSE: Final = re.compile(r"^Caused by: (?:[\w$]+\.)*([\w$]+): (.+)$", re.MULTILINE)
LIST_TOPICS: Final = "look at the names of topics: streamctl topic list"
_ADVICE: Final = (
    (
        r"DataLoss|failOnDataLoss|OffsetOutOfRange",
        "--read-option failOnDataLoss=false goes on without the records that are gone",
    ),
    (r"UnknownTopic", LIST_TOPICS),
    (
        r"KafkaAdminClient|KafkaConsumer|apache\.kafka\S*TimeoutException|No resolvable bootstrap",
        "see that a broker answers at --bootstrap, then run the job again",
    ),
    (r"TakenOver|Overtaken", "one loader at a time: end the other one, then run this one again"),
    (r"MetadataWentBack", "docs/operations.md, When Postgres was set back, says what to do"),
    (r"MetadataUnavailable", "see that Postgres answers, then run the job again"),
    (r"ObjectStoreUnavailable", "see that the object store answers, then run the job again"),
    (r"RegistryUnavailable", "see that the registry answers at --registry, then run it again"),
    (JAVA_GONE, "dmesg tells if its memory was wanted by others; what is done is kept"),
    (r"JAVA_GATEWAY_EXITED", "Spark says above why it did not start"),
)
_AGAIN: Final = "what is done is kept: run the job again when the cause is gone"


def explain(error: BaseException) -> str:
    """Return the line that says what happened: our own exception's if there is one in it."""
    if _is_java_gone(error):
        return JAVA_GONE
    if isinstance(error, FAILURES) and not isinstance(error, (PySparkException, Py4JError)):
        return f"{type(error).__name__}: {error}"
    whole = _CALLING.sub("", str(error))
    text = whole.partition(_JAVA)[0]
    found = _OURS.findall(text) or _PYTHON.findall(text)
    if found:
        name, said = found[-1]
        return f"{name}: {said}"
    line = text.strip().partition("\n")[0]
    causes = [": ".join(cause) for cause in _CAUSE.findall(whole)]
    return f"{line} ({causes[-1]})" if causes and causes[-1] not in line else line


def advice(error: BaseException) -> str:
    """Return what to do about a failure."""
    text = JAVA_GONE if _is_java_gone(error) else f"{type(error).__name__} {error}"
    return next((fix for pattern, fix in _ADVICE if re.search(pattern, text)), _AGAIN)


def _is_java_gone(error: BaseException) -> bool:
    """Return whether Java gave no answer; one that it gave has its words or its stack."""
    if isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError):
        return "Trace:" not in str(error)
    return isinstance(error, (ConnectionError, EOFError))
