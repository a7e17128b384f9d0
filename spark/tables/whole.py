"""Whether a value is one JSON object and nothing else: Spark's reader stops where the first ends.

So an array is read of the object and its digest. That is what no text holds of itself, so what ends
the array is not part of the text.
"""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

END: Final = "streamhouse_end"
"""The field that has the digest."""


def listed(text: Column) -> Column:
    """Return an array of an object and its digest."""
    return F.concat(F.lit("["), text, F.lit(f',{{"{END}":"'), F.md5(text), F.lit('"}]'))


def is_whole(read: Column, text: Column) -> Column:
    """Return whether nothing follows an object, by what was read of `listed`: objects with END."""
    digest = F.get(read, F.lit(1))[END]
    return F.coalesce((F.size(read) == 2) & (digest == F.md5(text)), F.lit(False))
