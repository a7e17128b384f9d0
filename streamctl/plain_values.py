"""What is wrong with an option's value, without the words of the library that parses it."""

from typing import Any, Final

import typer
from pydantic import ValidationError
from typer.core import TyperGroup

from streamctl.standard_streams import standard_streams

_NUMBER: Final = "int_parsing"
_SAID_BY_US: Final = "Value error, "
_SUBJECT: Final = "Input "


class PlainGroup(TyperGroup):
    """The root of a command line: values that its commands refuse are told in plain words."""

    def invoke(self, ctx: Any) -> Any:
        """Run what the command line says."""
        try:
            with standard_streams():
                return super().invoke(ctx)
        except typer.BadParameter as error:
            if isinstance(error.__cause__, ValidationError):
                error.message = _plain(error.__cause__)
            raise


def _plain(refused: ValidationError) -> str:
    first = refused.errors()[0]
    value, said = first["input"], first["msg"]
    if first["type"] == _NUMBER:
        return f"{value!r} is no whole number"
    if said.startswith(_SAID_BY_US):
        return said.removeprefix(_SAID_BY_US)
    return f"{value!r} {said.removeprefix(_SUBJECT)}"
