"""Under which subjects a schema must be registered: the strategies of Confluent's serializers.

By topic, a subject is the topic's name with -key or -value. By record, it is the full name of the
type that the schema describes, so that a topic may hold several types; by topic and record, both.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

_AVRO_PRIMITIVES: Final = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string", "array", "map")
)
_COMMENTS_AND_TEXTS: Final = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)
_PROTOBUF_TOKENS: Final = re.compile(
    r"\bpackage\s+(?P<package>[\w.]+)\s*;|\bmessage\s+(?P<message>\w+)\s*(?P<begin>\{)"
    r"|(?P<open>\{)|(?P<close>\})"
)


def topic_subject(topic: str, *, is_key: bool) -> str:
    return f"{topic}-{'key' if is_key else 'value'}"


def type_names(schema: object) -> frozenset[str]:
    """Return the full names of the types that a record of a schema may have; none if it has none.

    Args:
        schema: a registry's answer for a schema id: "schema" is its text, "schemaType" is AVRO
            where it is missing. One Protobuf schema has many message types; which of them a record
            has is not looked at.
    """
    if not isinstance(schema, Mapping):
        return frozenset()
    text, kind = schema.get("schema"), schema.get("schemaType", "AVRO")
    if not isinstance(text, str):
        return frozenset()
    if kind == "PROTOBUF":
        return frozenset(_protobuf_names(text))
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):  # whoever registered it may have nested it as they liked
        return frozenset()
    if kind == "JSON":
        title = parsed.get("title") if isinstance(parsed, Mapping) else None
        return frozenset((title,) if isinstance(title, str) else ())
    return frozenset(_avro_names(parsed))


def _avro_names(schema: object) -> Iterator[str]:
    """Yield the name of a named type, or of each that a union holds."""
    branches = schema if isinstance(schema, list) else [schema]
    for branch in branches:
        match branch:
            case str() if branch not in _AVRO_PRIMITIVES:  # a reference to another schema
                yield branch
            case {"name": str(name), "namespace": str(namespace)} if namespace and "." not in name:
                yield f"{namespace}.{name}"
            case {"name": str(name)}:
                yield name
            case _:
                pass


def _protobuf_names(text: str) -> Iterator[str]:
    """Yield the full name of each message type, nested ones too."""
    prefix = ""
    blocks: list[str] = []  # the names of the open ones; empty for what is no message
    for token in _PROTOBUF_TOKENS.finditer(_COMMENTS_AND_TEXTS.sub(" ", text)):
        if package := token["package"]:
            prefix = f"{package}."
        elif token["close"]:
            del blocks[-1:]
        else:
            blocks.append(token["message"] or "")
            if blocks[-1]:
                yield prefix + ".".join(filter(None, blocks))
