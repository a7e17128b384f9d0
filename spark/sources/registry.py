"""Schemas of a registry that speaks Confluent's API, as columns.

Values that its serializers wrote begin with a zero byte and the id of their schema, four bytes. The
schema of an id never changes, so it is asked for once.
"""

import base64
import json
import os
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import StructType

USER_INFO_VARIABLE: Final = "STREAMHOUSE_REGISTRY_USER_INFO"
"""USER:PASSWORD for a registry that wants a login."""
TIMEOUT_S: Final = 10
_NOT_FOUND: Final = 404


class RegistryUnavailable(RuntimeError):
    """It gave no answer, or one that is none; asking again later may help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A schema.

    Attributes:
        kind: AVRO, JSON or PROTOBUF.
        text: of the schema, in its own language.
        columns: of an Avro record; None for others, and for what Spark cannot make columns of.
    """

    kind: str
    text: str
    columns: StructType | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """A registry, and what it said of ids.

    Attributes:
        url: without credentials; those are in the environment.
    """

    url: str
    known: dict[int, Registered] = field(default_factory=dict)

    def ids_of(self, subject: str) -> list[int]:
        """Return the ids of all versions of a subject; none if there is no such subject.

        Raises:
            RegistryUnavailable: see there.
        """
        path = f"/subjects/{quote(subject, safe='')}/versions"
        versions = self._get(path) or []
        found = (self._get(f"{path}/{version}") for version in versions)
        return [one["id"] for one in found if one is not None]

    def schema(self, session: SparkSession, schema_id: int) -> Registered | None:
        """Return the schema of an id, or None if the registry does not know it (yet).

        Raises:
            RegistryUnavailable: see there.
        """
        if schema_id not in self.known:
            answer = self._get(f"/schemas/ids/{schema_id}")
            if answer is None:
                return None
            kind, text = answer.get("schemaType", "AVRO"), answer["schema"]
            columns = _columns(session, text) if kind == "AVRO" else None
            self.known[schema_id] = Registered(kind=kind, text=text, columns=columns)
        return self.known[schema_id]

    def _get(self, path: str) -> Any:
        request = Request(self.url.rstrip("/") + path)  # noqa: S310 - who runs the job names it
        login = os.environ.get(USER_INFO_VARIABLE)
        if login:
            request.add_header(
                "Authorization", f"Basic {base64.b64encode(login.encode()).decode()}"
            )
        try:
            with urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310 - as above
                return json.load(response)
        except HTTPError as error:
            with error:
                if error.code == _NOT_FOUND:
                    return None
            raise RegistryUnavailable(f"the registry answered {error.code} to {path}") from error
        except (OSError, HTTPException, ValueError) as error:
            raise RegistryUnavailable(f"the registry gave no answer to {path}") from error


def _columns(session: SparkSession, avro: str) -> StructType | None:
    nothing = F.lit(None).cast("binary")
    try:
        kind = session.range(0).select(from_avro(nothing, avro).alias("value")).schema["value"]
    except AnalysisException:  # references to other schemas, types that Spark does not have
        return None
    return kind.dataType if isinstance(kind.dataType, StructType) else None
