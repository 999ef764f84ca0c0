"""Small PNG images, written and read by the standard library: the comparisons need no library of images."""

import struct
import zlib

import numpy as np

SIZE = 32
SIGNATURE = b"\x89PNG\r\n\x1a\n"
HEADER_BYTES = 13


def of_text(text, size=SIZE):
    """The bytes of a text, over and over, as pixels u8[height, width, 3]."""
    return np.resize(np.frombuffer(text.encode(), np.uint8), (size, size, 3))


def write(path, pixels):
    height, width, _ = pixels.shape
    # Eight bits of red, green and blue, not interlaced.
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    path.write_bytes(SIGNATURE + b"".join(chunk(kind, data) for kind, data in chunks))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def read(path):
    """The pixels of a file that `write` made."""
    data = path.read_bytes()[len(SIGNATURE) :]
    width, height = struct.unpack(">II", data[8:16])
    data = data[12 + HEADER_BYTES :]
    length = struct.unpack(">I", data[:4])[0]
    rows = np.frombuffer(zlib.decompress(data[8 : 8 + length]), np.uint8).reshape(height, 1 + 3 * width)
    return rows[:, 1:].reshape(height, width, 3)
