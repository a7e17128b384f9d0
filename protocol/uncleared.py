"""Memory for bytes that are all overwritten before anybody looks at them.

Python clears a new bytearray, and so touches each of its pages: 18 microseconds for a megabyte of
pages that the process has, 235 for new ones. What nothing was received into takes no memory.
"""

import ctypes
from typing import Final

resize: Final = ctypes.pythonapi.PyByteArray_Resize
"""Make a bytearray that long; what it adds is not cleared."""

resize.argtypes = [ctypes.py_object, ctypes.c_ssize_t]
resize.restype = ctypes.c_int


def uncleared(length: int) -> bytearray:
    """Return a bytearray of whatever bytes; who calls it overwrites them.

    Raises:
        MemoryError: there is not so much.
    """
    buffer = bytearray()
    resize(buffer, length)
    return buffer
