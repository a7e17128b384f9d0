"""Checkpoints that were put back from an older copy: the output has batches that they do not know.

Spark writes down where a batch ends before it is written anywhere. So the output has no later batch
than its checkpoint has begun. One that was put back begins such a batch anew, with what has come
since, and its number is that of one that the output has: it would be left out as a repetition, and
what is new in it would be nowhere.
"""

import json
from collections.abc import Callable
from typing import Final

from spark.jobs.options import JobFailed
from spark.sinks.hadoop_files import HadoopFiles

_METADATA: Final = "metadata"
_OFFSETS: Final = "offsets"


def refuse_put_back(
    checkpoint: HadoopFiles, last_batch: Callable[[str], int], output: str, fix: str
) -> None:
    """Refuse a checkpoint that is older than the output; before the query starts.

    Args:
        checkpoint: its directory.
        last_batch: from the id of the query to the last batch of it that the output has, or -1.
        output: where that is.
        fix: what to do.

    Raises:
        JobFailed: it is.
    """
    text = checkpoint.read_text(_METADATA)
    if text is None:
        return
    last = last_batch(json.loads(text)["id"])  # before the checkpoint's: another driver may go on
    names = (name for name in checkpoint.names(_OFFSETS) if name.isdigit())
    begun = max(map(int, names), default=-1)
    if last > begun:
        raise JobFailed(
            f"{checkpoint.path} was put back from an older copy: {output} has batch {last} of it,"
            f" and the last that it knows is {begun}",
            fix=fix,
        )
