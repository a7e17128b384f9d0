"""Syntax trees, whatever the garbage collector finds meanwhile."""

import ast
import gc


def syntax_tree(source: str) -> ast.Module:
    """Parse, without collections.

    What a collection finds may log an error: a client library's future whose exception nobody
    asked for. Its traceback is printed with a parser of its own, and the tree that is being built
    then fails: CPython 3.11 counts the depth of all trees in one place ("AST constructor recursion
    depth mismatch").
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if collects:
            gc.enable()
