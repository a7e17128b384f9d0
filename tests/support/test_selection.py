"""What the list of long tests names is there, and only that is long."""

import ast

import pytest

from tests.support.selection import LIST, LONG, is_long
from tests.support.syntax_trees import syntax_tree

ROOT = LIST.parents[1]
KILLED = (
    "tests/groups/test_killed_member.py::test_the_survivors_share_the_partitions_of_a_killed_member"
)


@pytest.mark.parametrize("entry", sorted(LONG))
def test_each_entry_is_there(entry: str) -> None:
    path, _, test = entry.partition("::")
    assert (ROOT / path).exists()
    if test:
        tree = syntax_tree((ROOT / path).read_text())
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        assert test.partition("[")[0] in {
            node.name for node in ast.walk(tree) if isinstance(node, functions)
        }


@pytest.mark.parametrize(
    ("node_id", "expected"),
    [
        ("tests/spark/crash/test_any.py::test_any", True),
        ("tests/spark/test_compact.py::test_any[one]", True),
        ("tests/storage/test_recover.py::test_a_dry_run_leaves_an_empty_database", True),
        ("tests/spark/test_warehouse.py::test_any", False),
        (f"{KILLED}[java-consumer-range]", True),
        (f"{KILLED}[librdkafka-classic-range]", False),
    ],
)
def test_only_what_is_listed_is_long(node_id: str, expected: bool) -> None:
    assert is_long(node_id) == expected
