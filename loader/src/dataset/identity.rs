//! The name of a tokenized set: a hash of everything it is made from.

use std::fs::{File, Metadata};
use std::io::Read;
use std::path::Path;

use rayon::prelude::*;
use serde_json::{Value as Json, json};

use super::DatasetOptions;
use super::cache::FORMAT_VERSION;
use super::mixture::Sources;
use crate::error::{Error, Result};
use crate::source::{ImageCell, Source, image_of, texts_of_folder};
use crate::tokenize::TextTokenizer;

/// Bytes hashed at a time, by all threads of the pool.
const CHUNK: usize = 16 << 20;

/// The inputs of a set, as they were when hashed.
pub(super) struct Identity {
    pub(super) key: String,
    /// A hash of the files, and of the images that they name.
    pub(super) content: String,
    metadata: Vec<Metadata>,
}

impl Identity {
    /// Reads all files in full, at some gigabytes a second. Names and times do not count: a copy
    /// of a file is the same data.
    pub(super) fn of(
        sources: &Sources,
        options: &DatasetOptions,
        tokenizer: &dyn TextTokenizer,
    ) -> Result<Self> {
        let metadata = sources.local_files().map(metadata).collect::<Result<Vec<_>>>()?;
        let files = sources.local_files().map(hash_of).collect::<Result<Vec<_>>>()?;
        let images = sources.sources().map(|source| image_contents(source, options));
        let images = images.collect::<Result<Vec<_>>>()?;
        let identity = json!({
            "format_version": FORMAT_VERSION,
            "task": options.task,
            "mixture": sources.mixture().recipe(&sources.file_counts()),
            "tokenizer": tokenizer.fingerprint(),
            "contents": files,
            "images": images,
        });
        let (key, content) = (hash_of_json(&identity), hash_of_json(&json!([files, images])));
        Ok(Self { key, content, metadata })
    }

    /// Fails where a file was written to since it was hashed: the set would get a wrong name.
    pub(super) fn check_unchanged(&self, sources: &Sources) -> Result<()> {
        for (file, before) in sources.local_files().zip(&self.metadata) {
            let now = metadata(file)?;
            if now.len() != before.len() || now.modified().ok() != before.modified().ok() {
                return Err(Error::FileChanged { file: file.to_path_buf() });
            }
        }
        Ok(())
    }
}

fn hash_of_json(value: &Json) -> String {
    blake3::hash(value.to_string().as_bytes()).to_hex().to_string()
}

fn metadata(file: &Path) -> Result<Metadata> {
    std::fs::metadata(file).map_err(Error::io(file, "look at"))
}

/// The hash of all images that the rows name by their paths; `None` where rows have no images.
fn image_contents(source: &Source, options: &DatasetOptions) -> Result<Option<String>> {
    let Some(column) = options.task.preprocessor().image_column() else { return Ok(None) };
    let mut all = blake3::Hasher::new();
    for part in source.parts() {
        let folder = source.folder(part);
        source.read(part, &[column], &mut |records| {
            let hash = |record| match image_of(records.cell(column, record)) {
                // A missing file is an error when the set is built, with its row.
                Some(ImageCell::Path(path)) => hash_of(&folder.join(path)).ok(),
                _ => None,
            };
            let hashes: Vec<Option<String>> =
                (0..records.len()).into_par_iter().map(hash).collect();
            hashes.into_iter().flatten().for_each(|hash| {
                all.update(hash.as_bytes());
            });
            Ok(())
        })?;
    }
    Ok(Some(all.finalize().to_hex().to_string()))
}

/// Hashes the texts of a folder with their names. Rows of a folder of images name the content themselves.
fn hash_of_folder(folder: &Path) -> Result<String> {
    let texts = texts_of_folder(folder)?;
    let mut all = blake3::Hasher::new();
    for text in &texts {
        let name = text.strip_prefix(folder).unwrap_or(text);
        all.update(name.as_os_str().as_encoded_bytes()).update(b"\0");
        all.update(hash_of(text)?.as_bytes());
    }
    Ok(if texts.is_empty() { String::new() } else { all.finalize().to_hex().to_string() })
}

/// Hashes by reading, not by mapping: a file that shrinks meanwhile must not kill the process.
fn hash_of(file: &Path) -> Result<String> {
    if file.is_dir() {
        return hash_of_folder(file);
    }
    if !metadata(file)?.is_file() {
        return Err(Error::NotAFile { file: file.to_path_buf() });
    }
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
