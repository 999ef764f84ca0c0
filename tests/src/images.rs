//! Small images, written without a library: PNG files whose bytes are stored and not compressed.

/// A PNG image of `size` by `size` pixels of one color, each a little off by its place and `seed`.
pub fn png(size: u32, color: [u8; 3], seed: u8) -> Vec<u8> {
    let mut rows = Vec::new();
    for y in 0..size {
        // Without a filter.
        rows.push(0);
        for x in 0..size {
            let off = (x as u8).wrapping_mul(37) ^ (y as u8).wrapping_mul(101) ^ seed;
            rows.extend(color.map(|value| value.saturating_add(off % 64)));
        }
    }
    let mut header = [size.to_be_bytes(), size.to_be_bytes()].concat();
    // Eight bits of red, green and blue.
    header.extend([8, 2, 0, 0, 0]);
    let chunks = [chunk(b"IHDR", &header), chunk(b"IDAT", &stored(&rows)), chunk(b"IEND", &[])];
    [b"\x89PNG\r\n\x1a\n".as_slice(), &chunks.concat()].concat()
}

fn chunk(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u32).to_be_bytes();
    let checked = [kind, content].concat();
    [&length, checked.as_slice(), &crc32(&checked).to_be_bytes()].concat()
}

/// A zlib stream of one stored block.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let length = bytes.len() as u16;
    let header = [&[0x78, 0x01, 0x01][..], &length.to_le_bytes(), &(!length).to_le_bytes()];
    [&header.concat(), bytes, &adler32(bytes).to_be_bytes()].concat()
}

fn adler32(bytes: &[u8]) -> u32 {
    let sums = bytes.iter().fold((1_u32, 0_u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (b + a) % 65_521)
    });
    sums.1 << 16 | sums.0
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
    let add = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc));
    !bytes.iter().fold(!0, add)
}
