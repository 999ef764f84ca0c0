"""Small PNG images, written and read by the standard library: the comparisons need no library of images."""

import struct
import zlib

import numpy as np

SIZE = 32
SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Eight bits of red, green and blue, not interlaced.
HEADER = struct.pack(">IIBBBBB", SIZE, SIZE, 8, 2, 0, 0, 0)
ROW = 1 + 3 * SIZE


def of_text(text):
    """The bytes of a text, over and over, as pixels u8[height, width, 3]."""
    return np.resize(np.frombuffer(text.encode(), np.uint8), (SIZE, SIZE, 3))


def write(path, pixels):
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    chunks = [(b"IHDR", HEADER), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    path.write_bytes(SIGNATURE + b"".join(chunk(kind, data) for kind, data in chunks))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def read(path):
    """The pixels of a file that `write` made."""
    data = path.read_bytes()[len(SIGNATURE) + 12 + len(HEADER) :]
    length = struct.unpack(">I", data[:4])[0]
    rows = np.frombuffer(zlib.decompress(data[8 : 8 + length]), np.uint8).reshape(SIZE, ROW)
    return rows[:, 1:].reshape(SIZE, SIZE, 3)
