"""Rules that no review has to remember: what the product's code may not do."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.syntax_trees import syntax_tree

ROOT: Final = Path(__file__).parents[3]
PACKAGES: Final = ("broker", "coordinator", "protocol", "sql", "storage", "streamctl")
SOURCES: Final = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
RUFF: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]

FORBIDDEN: Final = {
    "S102": "exec",
    "S301": "pickle",
    "S302": "marshal",
    "S307": "eval",
    "S501": "a certificate that is not checked",
    "S506": "yaml.load",
    "S602": "a shell",
    "S605": "a shell",
    "S608": "SQL put together from pieces",
}
"""Rules of ruff (flake8-bandit) that stand without an exception in the product."""

PLACES_ONLY: Final = ROOT / "storage" / "recovery" / "recover_scratch.py"
"""Puts as many ? into a statement for its private SQLite as a row has fields, and nothing else."""

CATCHING_BUGS: Final = Counter(
    {
        "broker/apis/k00_produce.py": 1,
        "broker/dispatch.py": 2,
        "broker/groups/group_upkeep.py": 1,
        "broker/groups/group_writes.py": 1,
        "broker/network/ordered_answers.py": 1,
        "broker/transactions/transaction_upkeep.py": 1,
        "storage/upkeep/resting_partitions.py": 1,
        "storage/worker_threads.py": 1,
    }
)
"""How often bugs are caught: they cost one request, group, row or partition, or go to who waits."""

STATEMENT_CALLS: Final = {"execute", "fetch", "fetchrow", "fetchval", "executemany", "prepare"}
SECRET: Final = re.compile(
    r"(^|_)(password|passwd|proof|token|hmac|digest|(client|server)_signature|secret|stored_key|server_key|nonce)$"
)


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in SOURCES:
        yield str(path.relative_to(ROOT)), syntax_tree(path.read_text())


def named(node: ast.expr) -> str:
    """Return what an expression is named by: token of self.token, find.token() and token[1:]."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=function):
            return named(function)
        case ast.Subscript(value=value):
            return named(value)
        case _:
            return ""


def is_harmless(node: ast.expr) -> bool:
    """Tell whether it is a constant that says whether there is a secret at all."""
    return isinstance(node, ast.Constant) and node.value in ("", b"", None)


def compared_secrets(tree: ast.Module) -> list[int]:
    """Return the lines where == or != has a secret on one side."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            equal = any(isinstance(one, ast.Eq | ast.NotEq) for one in node.ops)
            if (
                equal
                and any(SECRET.search(named(side)) for side in sides)
                and not any(is_harmless(side) for side in sides)
            ):
                lines.append(node.lineno)
    return lines


def catches_bugs(handler: ast.ExceptHandler) -> bool:
    """Tell whether any error ends there; one that is raised again, after cleaning up, does not."""
    caught = {
        named(one)
        for one in ast.walk(handler.type or ast.Name("BaseException"))
        if isinstance(one, ast.Name)
    }
    raises = any(isinstance(node, ast.Raise) for node in ast.walk(handler))
    return "Exception" in caught or ("BaseException" in caught and not raises)


@pytest.mark.parametrize("rule", FORBIDDEN)
def test_ruff_has_no_exception_for(rule: str) -> None:
    assert "S" in RUFF["select"]
    assert not any(rule.startswith(one) for one in RUFF["ignore"])
    for where, ignored in RUFF["per-file-ignores"].items():
        product = where.split("/")[0] in PACKAGES
        assert not (product and any(rule.startswith(one) for one in ignored)), where
    for path in SOURCES:
        excepted = [line for line in path.read_text().splitlines() if f"noqa: {rule}" in line]
        places = path == PLACES_ONLY and all("({_places(" in line for line in excepted)
        assert not excepted or places, path


def test_secrets_are_compared_in_constant_time_only() -> None:
    found = [
        f"{path}:{line}"
        for path, tree in trees()
        if not path.startswith("streamctl/")  # compares what one person typed twice
        for line in compared_secrets(tree)
    ]
    assert found == [], "use hmac.compare_digest (CVE-2021-38153)"


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("given.password == wanted", True),
        ("proof != self._expected", True),
        ("session.stored_key() == key", True),
        ("header[7:] == self._http_token", True),
        ("a == b == hmac", True),
        ("token == ''", False),
        ("password is None", False),
        ("token_count == 3", False),
        ("hmac.compare_digest(token, wanted)", False),
    ],
)
def test_the_rule_finds_what_it_is_for(code: str, *, is_found: bool) -> None:
    assert bool(compared_secrets(syntax_tree(code))) is is_found


def test_statements_are_constants() -> None:
    """SQL lies in sql/; what is sent is query("name") or handed on, never made of strings here."""
    found = [
        f"{path}:{node.lineno}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if path != str(PLACES_ONLY.relative_to(ROOT))
        and isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in STATEMENT_CALLS
        and node.args
        and isinstance(node.args[0], ast.JoinedStr | ast.BinOp)
    ]
    assert found == []


def test_bugs_are_caught_in_these_places_only() -> None:
    found = Counter(
        path
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and catches_bugs(node)
    )
    assert found == CATCHING_BUGS


@pytest.mark.parametrize(
    ("caught", "then", "is_found"),
    [
        ("except Exception", "pass", True),
        ("except (OSError, Exception) as error", "raise", True),
        ("except", "pass", True),
        ("except BaseException", "pass", True),
        ("except BaseException", "raise", False),
        ("except OSError", "pass", False),
    ],
)
def test_the_rule_about_bugs_finds_what_it_is_for(
    caught: str, then: str, *, is_found: bool
) -> None:
    tree = syntax_tree(f"try:\n    work()\n{caught}:\n    {then}\n")
    (handler,) = (node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler))
    assert catches_bugs(handler) is is_found


def test_nothing_imports_what_runs_what_it_reads() -> None:
    forbidden = {"pickle", "marshal", "shelve", "dill", "yaml"}
    for path, tree in trees():
        for node in ast.walk(tree):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not forbidden & {name.split(".")[0] for name in names}, path
