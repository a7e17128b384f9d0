"""Which tests are long: `make test-all` runs them, `make test` and CI do not, to end in time.

tests/long.txt names them: folders, files, tests, or one form of a test, as `pytest @tests/long.txt`
takes them. Of most, `make test` has another form or a smaller test of the same promise.
"""

from pathlib import Path
from typing import Final

LIST: Final = Path(__file__).parents[1] / "long.txt"
LONG: Final = frozenset(LIST.read_text().splitlines())


def is_long(node_id: str) -> bool:
    path, _, test = node_id.partition("::")
    name = test.partition("[")[0]
    folders = map(str, Path(path).parents)
    return not LONG.isdisjoint((node_id, f"{path}::{name}", path, *folders))
