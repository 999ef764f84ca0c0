//! The name of a tokenized set: a hash of everything it is made from.

use std::fs::{File, Metadata};
use std::io::Read;
use std::path::Path;

use serde_json::json;

use super::DatasetOptions;
use super::cache::FORMAT_VERSION;
use crate::{Error, Result, Source, TextTokenizer};

/// Bytes hashed at a time, by all threads of the pool.
const CHUNK: usize = 16 << 20;

/// The inputs of a set, as they were when hashed.
pub(super) struct Identity {
    pub(super) key: String,
    metadata: Vec<Metadata>,
}

impl Identity {
    /// Reads all files in full, at some gigabytes a second. Names and times do not count: a copy
    /// of a file is the same data.
    pub(super) fn of(
        source: &Source,
        options: &DatasetOptions,
        tokenizer: &dyn TextTokenizer,
    ) -> Result<Self> {
        let metadata = source.local_files().map(metadata).collect::<Result<Vec<_>>>()?;
        let contents = source.local_files().map(hash_of).collect::<Result<Vec<_>>>()?;
        let identity = json!({
            "format_version": FORMAT_VERSION,
            "task": options.task,
            "columns": options.files.columns,
            "format": options.files.format,
            "tokenizer": tokenizer.fingerprint(),
            "contents": contents,
        });
        let key = blake3::hash(identity.to_string().as_bytes()).to_hex().to_string();
        Ok(Self { key, metadata })
    }

    /// Fails where a file was written to since it was hashed: the set would get a wrong name.
    pub(super) fn check_unchanged(&self, source: &Source) -> Result<()> {
        for (file, before) in source.local_files().zip(&self.metadata) {
            let now = metadata(file)?;
            if now.len() != before.len() || now.modified().ok() != before.modified().ok() {
                return Err(Error::FileChanged { file: file.to_path_buf() });
            }
        }
        Ok(())
    }
}

fn metadata(file: &Path) -> Result<Metadata> {
    std::fs::metadata(file).map_err(Error::io(file, "look at"))
}

/// Hashes by reading, not by mapping: a file that shrinks meanwhile must not kill the process.
fn hash_of(file: &Path) -> Result<String> {
    let mut reader = File::open(file).map_err(Error::io(file, "open"))?;
    let mut hasher = blake3::Hasher::new();
    let mut chunk = Vec::new();
    loop {
        chunk.clear();
        let read = reader.by_ref().take(CHUNK as u64).read_to_end(&mut chunk);
        if read.map_err(Error::io(file, "read"))? == 0 {
            return Ok(hasher.finalize().to_hex().to_string());
        }
        hasher.update_rayon(&chunk);
    }
}
