//! Text files that may be compressed, recognized by the end of the name: `.gz` (gzip) and `.zst`
//! (zstd). They are decompressed as they are read, so that no file need fit into memory. A file that grows to more than
//! text does is a decompression bomb.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::error::{Error, Result};

/// Ends of names that stand for a compression, and what opens it.
pub(super) const COMPRESSIONS: [&str; 2] = [".gz", ".zst"];

/// The first bytes of compressed files, in the order of [`COMPRESSIONS`].
const MAGIC: [&[u8]; 2] = [b"\x1f\x8b", b"\x28\xb5\x2f\xfd"];

/// A file may become this large, whatever its size.
const TEXT_BYTES: u64 = 1 << 30;
/// A larger one may become this many times as large. Text becomes 3 to 20 times as large, and nothing by gzip more
/// than 1,032 times.
pub(super) const GROWTH_MAX: u64 = 200;

/// The end of a name that text beginning with `start` should have had.
pub(super) fn missing_end(start: &[u8]) -> Option<&'static str> {
    let found = MAGIC.iter().position(|magic| start.starts_with(magic))?;
    Some(COMPRESSIONS[found])
}

/// The name without the end that stands for a compression.
pub(super) fn without_compression(name: &str) -> &str {
    let ends = COMPRESSIONS.iter().find_map(|end| name.strip_suffix(end));
    ends.unwrap_or(name)
}

/// The most bytes that data of a compressed size may become.
pub(super) fn bytes_max(size: u64) -> u64 {
    grown(size, TEXT_BYTES)
}

fn grown(size: u64, text_bytes: u64) -> u64 {
    size.saturating_mul(GROWTH_MAX).max(text_bytes)
}

/// Opens a file and decompresses it where its name says so.
pub(super) fn open_text(path: &Path) -> Result<Box<dyn Read>> {
    open_within(path, TEXT_BYTES)
}

fn open_within(path: &Path, text_bytes: u64) -> Result<Box<dyn Read>> {
    let file = File::open(path).map_err(Error::io(path, "open"))?;
    let name = path.to_string_lossy().to_lowercase();
    let size = file.metadata().map_err(Error::io(path, "open"))?.len();
    let bytes_left = grown(size, text_bytes);
    Ok(match COMPRESSIONS.iter().position(|end| name.ends_with(end)) {
        Some(0) => {
            Box::new(Bounded { reader: MultiGzDecoder::new(BufReader::new(file)), bytes_left })
        }
        Some(_) => {
            let reader = zstd::stream::read::Decoder::new(file).map_err(Error::io(path, "open"))?;
            Box::new(Bounded { reader, bytes_left })
        }
        None => Box::new(file),
    })
}

/// Refuses to read more than a number of bytes.
struct Bounded<R> {
    reader: R,
    bytes_left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        let left = self.bytes_left.checked_sub(read as u64);
        self.bytes_left = left.ok_or_else(|| {
            io::Error::other(format!(
                "it decompresses to more than {GROWTH_MAX} times its size and 1 GiB; if that is what it \
                 has, decompress it first"
            ))
        })?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn a_bomb_is_refused_where_it_exceeds_the_bound() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&vec![b'\n'; 1 << 20]).unwrap();
        let bomb = gzip.finish().unwrap();
        let read = |bytes_left| {
            let reader = MultiGzDecoder::new(&bomb[..]);
            io::copy(&mut Bounded { reader, bytes_left }, &mut io::sink())
        };
        assert_eq!(read(1 << 20).unwrap(), 1 << 20);
        let error = read((1 << 20) - 1).unwrap_err().to_string();
        assert!(error.contains("decompresses to more than 200 times its size"), "{error}");
    }

    /// Whole files of each compression that is read, which become a little more than may be.
    #[test]
    fn bombs_of_all_compressions_are_refused() {
        let folder = crate::testing::DataFolder::new();
        const MOST: u64 = 4 << 20;
        let zstd = zstd::stream::encode_all(io::repeat(b'\n').take(MOST + 1), 1).unwrap();
        // One member after the other.
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&vec![b'\n'; 1 << 20]).unwrap();
        let gzip = gzip.finish().unwrap().repeat(5);
        for (name, bomb) in [("a.txt.zst", zstd), ("a.txt.gz", gzip)] {
            let path = folder.write(name, bomb);
            assert!(bytes_max(0) > 100 * MOST);
            let text = open_within(Path::new(&path), MOST).unwrap();
            let error = io::copy(&mut { text }, &mut io::sink()).unwrap_err().to_string();
            assert!(error.contains("decompresses to more than 200 times"), "{name}: {error}");
        }
    }
}
