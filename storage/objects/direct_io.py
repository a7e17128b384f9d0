"""What O_DIRECT asks for: past the page cache, to and from round places."""

import ctypes
import os
from typing import Final

O_DIRECT: Final = getattr(os, "O_DIRECT", 0)  # 0 where there is no such thing
ALIGNMENT: Final = 4096  # no block device asks for more


def rounded_up(length: int) -> int:
    """Return the next multiple of ALIGNMENT."""
    return -(-length // ALIGNMENT) * ALIGNMENT


def address_of(data: memoryview) -> int:
    """Return where writable bytes lie; they stay there as long as `data` is kept."""
    return ctypes.addressof(ctypes.c_char.from_buffer(data))
