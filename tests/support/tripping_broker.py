"""A broker that trips over each batch that its registry, or a compacted topic, would check."""

from typing import NoReturn

from broker import batch_checks, main
from broker.schemas.schema_validation import SchemaValidation


async def trip(*_: object) -> NoReturn:
    raise ZeroDivisionError("a bug")


if __name__ == "__main__":
    batch_checks.check_keys = trip  # type: ignore[assignment]
    SchemaValidation.check = trip  # type: ignore[assignment, method-assign]
    main.main()
