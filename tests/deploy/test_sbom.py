"""The image says what is in it: a CycloneDX list that `uv export` makes of uv.lock."""

import json
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

from tests.deploy.dockerfile import ROOT, instructions, project
from tests.deploy.test_wheel import environment, uv  # noqa: F401 (a fixture)

LOCK: dict[str, Any] = tomllib.loads((ROOT / "uv.lock").read_text())


def runtime_packages() -> dict[str, str]:
    """Return names and versions of what the broker is installed with, extras included."""
    packages = {package["name"]: package for package in LOCK["package"]}
    own = packages[project()["project"]["name"]]["dependencies"]
    ahead: list[tuple[str, list[str]]] = [(one["name"], one.get("extra", [])) for one in own]
    found: dict[str, str] = {}
    while ahead:
        name, extras = ahead.pop()
        package = packages[name]
        needed = list(package.get("dependencies", ()))
        for extra in extras:
            needed += package["optional-dependencies"][extra]
        if name not in found or extras:
            found[name] = package["version"]
            ahead += [(one["name"], one.get("extra", [])) for one in needed]
    return found


def exporting_step() -> list[str]:
    """Return the words of the image's command that writes the list."""
    (step,) = (
        one.value for one in instructions() if one.name == "RUN" and "uv export" in one.value
    )
    return shlex.split(step)


def test_the_image_lists_every_package_of_the_lock(uv: list[str], tmp_path: Path) -> None:  # noqa: F811
    # Given the command that the image is built with
    words = exporting_step()
    place = words.index("--output-file") + 1
    assert words[place].startswith("/opt/streamhouse/")  # what the last stage copies
    words[place] = str(tmp_path / "sbom.cdx.json")
    assert "--locked" in words
    assert "--no-dev" in words

    # When it runs
    subprocess.run([*uv, *words[1:]], check=True, cwd=ROOT, env=environment())

    # Then the file has each package that the broker is installed with, with its hashes
    bom = json.loads((tmp_path / "sbom.cdx.json").read_text())
    assert bom["bomFormat"] == "CycloneDX"
    listed = {one["name"]: one for one in bom["components"]}
    needed = runtime_packages()
    assert len(needed) > 30
    assert needed.items() <= {name: one["version"] for name, one in listed.items()}.items()
    for name in needed:
        files = listed[name]["externalReferences"]
        assert all(file["hashes"][0]["alg"] == "SHA-256" for file in files)
        assert listed[name]["purl"] == f"pkg:pypi/{name}@{needed[name]}"

    # And nothing that only the tests need
    assert "pytest" not in listed
    assert "pyspark" not in listed
