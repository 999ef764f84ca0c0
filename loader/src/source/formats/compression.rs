//! Text files that may be compressed, recognized by the end of the name: `.gz` (gzip) and `.zst`
//! (zstd). They are decompressed as they are read, so that no file need fit into memory.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::{Error, Result};

/// Ends of names that stand for a compression, and what opens it.
pub(super) const COMPRESSIONS: [&str; 2] = [".gz", ".zst"];

/// The first bytes of compressed files, in the order of [`COMPRESSIONS`].
const MAGIC: [&[u8]; 2] = [b"\x1f\x8b", b"\x28\xb5\x2f\xfd"];

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

/// Opens a file and decompresses it where its name says so.
pub(super) fn open_text(path: &Path) -> Result<Box<dyn Read>> {
    let file = File::open(path).map_err(Error::io(path, "open"))?;
    let name = path.to_string_lossy().to_lowercase();
    Ok(match COMPRESSIONS.iter().position(|end| name.ends_with(end)) {
        Some(0) => Box::new(MultiGzDecoder::new(BufReader::new(file))),
        Some(_) => {
            Box::new(zstd::stream::read::Decoder::new(file).map_err(Error::io(path, "open"))?)
        }
        None => Box::new(file),
    })
}
