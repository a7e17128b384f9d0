"""Starts Spark's Python workers (`spark.python.daemon.module`) without pyspark's zip files.

Spark puts copies of pyspark and py4j as zip files, and its own jar, before what is installed.
Before each task Python then reads their directories anew (importlib.invalidate_caches): half a
second of processor time. Where the same pyspark is installed, as it is for a local master, nobody
needs them; zip files of users stay.
"""

import importlib
import re
import sys
from typing import Final

ZIP_OF_SPARK: Final = re.compile(
    r"(^|/)(pyspark\.zip|py4j-[\w.]+-src\.zip|spark-core_[\w.-]+\.jar)(/|$)"
)


def drop_zips() -> None:
    """Take them from the path of this process, and of those that it forks."""
    sys.path[:] = [entry for entry in sys.path if not ZIP_OF_SPARK.search(entry)]
    for entry in [*sys.path_importer_cache]:
        if ZIP_OF_SPARK.search(entry):
            del sys.path_importer_cache[entry]


if __name__ == "__main__":
    drop_zips()
    importlib.import_module("pyspark.daemon").manager()
