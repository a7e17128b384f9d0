"""A processor of the exactly-once test, as a process of its own."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.clients.java_programs import java_program
from tests.crash.exactly_once_settings import (
    ABORT_EVERY,
    ABORTED,
    BATCH,
    KEYS,
    TARGET_PARTITIONS,
    ProcessorSettings,
)
from tests.transactions.java_client import SERIALIZERS

ROOT: Final = Path(__file__).parents[2]
JAVA_SOURCE: Final = Path(__file__).with_name("ExactlyOnceProcessor.java")


@dataclass(slots=True)
class Processor:
    """A processor, which is started as often as it is killed."""

    library: str
    settings: ProcessorSettings
    errors: Path
    process: "subprocess.Popen[bytes]"

    @classmethod
    def start(cls, library: str, settings: ProcessorSettings) -> "Processor":
        errors = Path(settings.page).with_suffix(".log")
        return cls(library, settings, errors, _process(library, settings, errors))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def restart(self) -> None:
        self.process = _process(self.library, self.settings, self.errors)

    def leave(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    @property
    def events(self) -> list[dict[str, Any]]:
        """What it wrote; a line that kill -9 has cut does not count."""
        page = Path(self.settings.page)
        text = page.read_text() if page.exists() else ""
        found = []
        for line in text.split("\n"):
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                continue
        return found


def _process(library: str, settings: ProcessorSettings, errors: Path) -> "subprocess.Popen[bytes]":
    if library == "java":
        command = java_program(JAVA_SOURCE, json.dumps(_java_argument(settings)))
    else:
        program = f"tests.crash.exactly_once_{library}"
        command = (sys.executable, "-m", program, settings.to_json())
    with errors.open("a") as log:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=log, cwd=ROOT)


def _java_argument(settings: ProcessorSettings) -> dict[str, Any]:
    return {
        "name": settings.name,
        "source": settings.source,
        "target": settings.target,
        "page": settings.page,
        "abort_every": ABORT_EVERY,
        "aborted": ABORTED,
        "keys": KEYS,
        "target_partitions": TARGET_PARTITIONS,
        "consumer": settings.consumer()
        | {
            "max.poll.records": BATCH,
            "fetch.max.wait.ms": 100,
            "key.deserializer": f"{SERIALIZERS}.ByteArrayDeserializer",
            "value.deserializer": f"{SERIALIZERS}.StringDeserializer",
        },
        "producer": settings.producer()
        | {
            "max.block.ms": 15_000,
            "delivery.timeout.ms": 30_000,
            "key.serializer": f"{SERIALIZERS}.ByteArraySerializer",
            "value.serializer": f"{SERIALIZERS}.StringSerializer",
        },
    }
