"""A tree is whole whatever is collected meanwhile."""

import ast
import gc
from pathlib import Path

from tests.support.syntax_trees import syntax_tree


class _Parses:
    """Refers to itself, and parses when it is collected, as a traceback that is logged does."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        ast.parse("1 + 1")


def test_what_is_collected_may_parse() -> None:
    source = Path(__file__).read_text()
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(100):
            _Parses()
            assert isinstance(syntax_tree(source).body[-1], ast.FunctionDef)
    finally:
        gc.set_threshold(*before)
