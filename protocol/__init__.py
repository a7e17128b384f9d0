"""The words on the wire: framing, codec, record batches, compression. No I/O, no clock."""
