"""What Java says on standard error while it starts: lines about itself, of no use to who asks."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import Final

_STDERR: Final = 2


@contextmanager
def java_words_aside() -> Iterator[None]:
    """Start Java within: all that it ever says is shown only if it does not start."""
    with TemporaryFile() as aside:
        own = os.dup(_STDERR)
        os.dup2(aside.fileno(), _STDERR)
        try:
            yield
        except Exception:
            os.dup2(own, _STDERR)
            aside.seek(0)
            shutil.copyfileobj(aside, sys.stderr.buffer)
            sys.stderr.flush()
            raise
        finally:
            os.dup2(own, _STDERR)
            os.close(own)
