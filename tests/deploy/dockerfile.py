"""deploy/Dockerfile, read as far as the tests need it."""

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"


class Instruction(NamedTuple):
    """One instruction; `stage` counts the FROMs before it, its own included."""

    stage: int
    name: str
    value: str


def instructions() -> list[Instruction]:
    """Return all instructions in order, continued lines joined, comments left out."""
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#"))
    found, stage = [], 0
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        if line.strip():
            name, value = line.split(maxsplit=1)
            stage += name == "FROM"
            found.append(Instruction(stage, name, value))
    return found


def in_image(name: str) -> list[str]:
    """Return the values of the last stage's instructions of one name."""
    last = instructions()[-1].stage
    return [one.value for one in instructions() if one.stage == last and one.name == name]


def image_environment() -> dict[str, str]:
    """Return what the image sets for a broker."""
    pairs = [word.split("=", 1) for value in in_image("ENV") for word in shlex.split(value)]
    return {name: value for name, value in pairs if name.startswith("STREAMHOUSE_")}


def image_command() -> list[str]:
    """Return the arguments of `streamhouse` when nobody gives any."""
    (command,) = in_image("CMD")
    words: list[str] = json.loads(command)
    return words


def copied_sources() -> list[str]:
    """Return what the first stage copies out of the repository, by path from its root."""
    copies = [one.value.split() for one in instructions() if one.name == "COPY" and one.stage == 1]
    return [source for words in copies for source in words[:-1]]


def project() -> dict[str, Any]:
    """Return pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def packages() -> list[str]:
    """Return the packages that the wheel is made of."""
    names: list[str] = project()["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    return names
