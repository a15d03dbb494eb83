"""Bytes to the one gzip file of them.

With a header of our own, because those of Python's `gzip` name the operating system, and differ
between its versions. What follows is zlib's, which makes the same bytes of the same input wherever
it is the same zlib; another one (zlib-ng) may not. What is the same everywhere is the tar inside.
"""

import struct
import zlib

# gzip, deflate, no flags, no time, no hints, no operating system in particular (RFC 1952 2.3).
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"


def gzipped(data: bytes) -> bytes:
    """A gzip file that decompresses to these bytes."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    stream = deflate.compress(data) + deflate.flush()
    return _HEADER + stream + struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)
