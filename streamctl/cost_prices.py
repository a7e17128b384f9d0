"""Price lists of object stores: TOML, with the names of PriceList."""

import math
import tomllib
from dataclasses import dataclass, fields
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any, Final

from streamctl.errors import Failure

TEXTS: Final = ("name", "currency")


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList:
    """What an object store costs, in one currency.

    Attributes:
        put_per_1000, list_per_1000, get_per_1000, delete_per_1000: requests; of DELETE, objects.
        stored_gb_month: storage.
        put_gb, get_gb: transfer to the store and from it.
        produced_gb, fetched_gb: transfer from clients to brokers and back.
        gb_bytes: what is billed as one GB.
    """

    name: str
    currency: str
    put_per_1000: float
    list_per_1000: float
    get_per_1000: float
    delete_per_1000: float
    stored_gb_month: float
    put_gb: float
    get_gb: float
    produced_gb: float
    fetched_gb: float
    gb_bytes: float


NAMES: Final = tuple(field.name for field in fields(PriceList))


def default_text() -> str:
    """Return the price list that comes with the command, as it is written down."""
    return resources.files("streamctl").joinpath("prices.toml").read_text("utf-8")


def read_prices(path: Path | None) -> PriceList:
    """Return the list in a file; what it leaves out is as in the one that comes with the command.

    Raises:
        Failure: the file cannot be read, or says something that is no price.
    """
    values = tomllib.loads(default_text())
    if path is not None:
        try:
            given = tomllib.loads(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise Failure(
                f"--prices {path}: {getattr(error, 'strerror', None) or error}",
                fix="see how one looks: streamctl cost --show-prices",
            ) from error
        values |= {"name": path.name, **_checked(path, given)}
    return PriceList(**values)


def _checked(path: Path, given: dict[str, Any]) -> dict[str, Any]:
    for name, value in given.items():
        if name not in NAMES:
            near = get_close_matches(name, NAMES, n=1)
            fix = f"did you mean {near[0]}?" if near else f"the names are {', '.join(NAMES)}"
            raise Failure(f"--prices {path}: {name!r} is no price", fix=fix)
        if name in TEXTS:
            if not isinstance(value, str):
                raise Failure(f"--prices {path}: {name} is a text, not {value!r}")
        elif not _is_price(value) or (name == "gb_bytes" and value < 1):
            raise Failure(f"--prices {path}: {name} is a number, 0 or more, not {value!r}")
    return given


def _is_price(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value >= 0  # type: ignore[operator,arg-type]
