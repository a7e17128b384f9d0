"""The wheel, built from what the image is built from, installed and used outside the repository."""

import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Sequence
from pathlib import Path

import grimp
import pytest

from sql import migrations, query_names
from tests.deploy.dockerfile import ROOT, copied_sources, packages, project

BUILD_TIMEOUT_S = 300
IMPORTED_BY_NAME = {"broker.app"}  # in a thread, while Postgres is being formatted
WHOSE = "import json; from importlib.metadata import *; print(json.dumps(packages_distributions()))"
FILES = (
    "import importlib, json, sql, sys; modules = map(importlib.import_module, sys.argv[1:]);"
    "print(json.dumps([[module.__file__ for module in modules], sql.query_names(),"
    " [each.checksum for each in sql.migrations()]]))"
)


def environment() -> dict[str, str]:
    """Return this process's variables without those that Python, uv's project or we would read."""
    unwanted = ("PYTHON", "STREAMHOUSE_", "VIRTUAL_ENV", "UV_PROJECT")
    return {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}


def run(command: Sequence[str | Path], folder: Path) -> str:
    """Run a program outside the repository and return what it said."""
    ended = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        cwd=folder,
        env=environment(),
    )
    assert ended.returncode == 0, f"{command}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


@pytest.fixture(scope="module")
def uv() -> list[str]:
    """The command `uv`: the one that `make` installed, or one on PATH, or this Python's module."""
    made = ROOT / ".cache" / "uv" / "bin" / "uv"
    if made.is_file():
        return [str(made)]
    if found := shutil.which("uv"):
        return [found]
    return [sys.executable, "-m", "uv"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the Dockerfile copies, and nothing else."""
    folder = tmp_path_factory.mktemp("source")
    for name in copied_sources():
        if (ROOT / name).is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=ignore)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(uv: list[str], source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = ["build", "--wheel", "--python", sys.executable, "--out-dir", str(folder), str(source)]
    run([*uv, *build], folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(uv: list[str], wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a fresh environment with our wheel; dependencies are those of this one."""
    home = tmp_path_factory.mktemp("installed")
    run([*uv, "venv", "--python", sys.executable, str(home / "venv")], home)
    programs = home / "venv" / "bin"
    target = ["--python", str(programs / "python"), "--no-deps", "--offline"]
    run([*uv, "pip", "install", *target, str(wheel)], home)
    (packages_folder,) = (home / "venv" / "lib").glob("python*/site-packages")
    # The folder is searched last and its own .pth files are not read: our editable install is not
    # seen through it.
    (packages_folder / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return programs


def test_the_wheel_has_all_of_our_packages_and_nothing_else(source: Path, wheel: Path) -> None:
    ours = {
        str(file.relative_to(source))
        for package in packages()
        for file in (source / package).rglob("*")
        if file.is_file()
    }
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == ours
    assert {Path(name).suffix for name in ours} == {".py", ".sql", ".toml", ".typed"}
    assert all(f"{package}/py.typed" in ours for package in packages())


def test_each_of_its_modules_is_imported_by_another_or_run() -> None:
    graph = grimp.build_graph(*packages(), cache_dir=None)
    alone = {
        module
        for module in graph.modules
        if not graph.find_modules_that_directly_import(module) and not graph.find_children(module)
    }
    programs = {target.partition(":")[0] for target in project()["project"]["scripts"].values()}
    for_tests = {
        module
        for module in alone - programs - IMPORTED_BY_NAME
        if "__main__" not in (ROOT / f"{module.replace('.', '/')}.py").read_text()
    }
    assert not for_tests


def test_its_code_and_its_sql_are_found_outside_the_repository(installed: Path) -> None:
    found = run([installed / "python", "-c", FILES, *packages()], installed)
    files, names, checksums = json.loads(found)
    library = installed.parent / "lib"
    assert all(Path(file).is_relative_to(library) for file in files)
    assert names == query_names()
    assert checksums == [migration.checksum for migration in migrations()]


@pytest.mark.parametrize(("program", "command"), [("streamhouse", "serve"), ("streamctl", "topic")])
def test_its_commands_run(installed: Path, program: str, command: str) -> None:
    assert program in project()["project"]["scripts"]
    assert command in run([installed / program, "--help"], installed)


def test_its_broker_serves(installed: Path, tmp_path: Path) -> None:
    serve = ["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", str(tmp_path)]
    with (tmp_path / "log").open("w") as errors:
        process = subprocess.Popen(
            [installed / "streamhouse", *serve],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=tmp_path,
            env=environment(),
        )
    with process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert re.match(r"ready bootstrap=\S+ http=\S+", line), (tmp_path / "log").read_text()
    assert process.returncode == 0


def test_our_package_names_are_ours_alone(installed: Path) -> None:
    """Flat names could be taken by another distribution, which pip would install over ours."""
    distributions = json.loads(run([installed / "python", "-c", WHOSE], installed))
    assert {name: set(distributions[name]) for name in packages()} == {
        name: {"streamhouse"} for name in packages()
    }
    here = importlib.metadata.packages_distributions()  # an editable install does not list them
    assert all(set(here.get(name, ["streamhouse"])) == {"streamhouse"} for name in packages())
