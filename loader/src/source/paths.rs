//! Paths, globs, `datasets` folders and `s3://` URLs to files.

use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use traind_durable::read_description;

use super::Files;
use super::data_path::{DataPath, SCHEME};
use crate::error::{Error, Result};

/// The names of the splits of a folder that `DatasetDict.save_to_disk` wrote.
const SPLITS_FILE: &str = "dataset_dict.json";

/// Characters of globs.
const WILDCARDS: [char; 3] = ['*', '?', '['];

/// The names of the data files of a folder that `Dataset.save_to_disk` wrote.
const STATE_FILE: &str = "state.json";

#[derive(Deserialize)]
struct Splits {
    splits: Vec<String>,
}

#[derive(Deserialize)]
struct State {
    _data_files: Vec<StateFile>,
}

#[derive(Deserialize)]
struct StateFile {
    filename: String,
}

/// The files that `patterns` name: patterns in their order, a glob's matches sorted by path, a
/// `datasets` folder's files in its own order. A path that exists is taken literally even if it
/// looks like a glob. `split` selects one of a folder's splits.
pub(super) fn expand(files: &Files) -> Result<Vec<DataPath>> {
    if files.patterns.is_empty() {
        return Err(Error::NoFiles);
    }
    let matches = files.patterns.iter().map(|pattern| match pattern.starts_with(SCHEME) {
        true => objects(pattern, files),
        false => {
            let named =
                |local: PathBuf| DataPath { name: files.fetch.original_name(&local), local };
            Ok(local(pattern, &files.split)?.into_iter().map(named).collect())
        }
    });
    Ok(matches.collect::<Result<Vec<_>>>()?.concat())
}

#[cfg(feature = "s3")]
fn objects(pattern: &str, files: &Files) -> Result<Vec<DataPath>> {
    let temporary = std::env::temp_dir();
    super::s3::fetch(pattern, files.cache_dir.as_deref().unwrap_or(&temporary), &files.fetch)
}

#[cfg(not(feature = "s3"))]
fn objects(pattern: &str, _files: &Files) -> Result<Vec<DataPath>> {
    let problem = Box::new(crate::error::ObjectProblem::Unsupported);
    Err(Error::Object { url: pattern.to_owned(), problem })
}

fn local(pattern: &str, split: &str) -> Result<Vec<PathBuf>> {
    let path = Path::new(pattern);
    let is_glob = pattern.contains(WILDCARDS);
    match (path.is_dir(), is_glob && !path.exists()) {
        (true, _) => folder_files(path, split),
        (_, true) => matching_files(pattern),
        _ => Ok(vec![path.to_path_buf()]),
    }
}

/// The files that a glob matches, sorted by path; none is an error, and so is one that only its name keeps out.
pub fn matching_files(pattern: &str) -> Result<Vec<PathBuf>> {
    let paths = glob::glob(pattern).map_err(|error| Error::BadGlob {
        pattern: pattern.to_owned(),
        message: error.msg.to_owned(),
    })?;
    let mut files = paths.collect::<Result<Vec<_>, _>>().map_err(|error| Error::Io {
        file: error.path().to_path_buf(),
        operation: "list",
        source: error.into(),
    })?;
    files.retain(|path| path.is_file());
    files.sort();
    if let Some(file) = named_otherwise(pattern) {
        return Err(Error::NameNotUtf8 { file });
    }
    match files.is_empty() {
        true => Err(Error::NoMatch { pattern: pattern.to_owned() }),
        false => Ok(files),
    }
}

/// A file that a glob passes over, whatever it is, since its path is not UTF-8.
fn named_otherwise(pattern: &str) -> Option<PathBuf> {
    let glob = glob::Pattern::new(pattern).ok()?;
    let parts: Vec<Component<'_>> = Path::new(pattern).components().collect();
    let is_plain = |part: &&Component<'_>| !part.as_os_str().to_string_lossy().contains(WILDCARDS);
    let base: PathBuf = parts.iter().take_while(is_plain).collect();
    let depth = match pattern.contains("**") {
        true => usize::MAX,
        false => parts.len() - base.components().count(),
    };
    let base = if base.as_os_str().is_empty() { Path::new(".") } else { &base };
    let mut folders = vec![(base.to_owned(), depth)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && depth > 1 {
                folders.push((path, depth - 1));
            } else if path.to_str().is_none() && path.is_file() {
                let name = path.strip_prefix("./").unwrap_or(&path).to_string_lossy();
                if glob.matches_with(&name, AS_PATHS) {
                    return Some(path);
                }
            }
        }
    }
    None
}

/// Wildcards match no separator, as where paths are listed.
const AS_PATHS: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

fn folder_files(folder: &Path, split: &str) -> Result<Vec<PathBuf>> {
    let splits = folder.join(SPLITS_FILE);
    if splits.exists() {
        let Splits { splits } = read_json(&splits)?;
        if !splits.iter().any(|name| name == split) {
            let (split, available) = (split.to_owned(), splits.join(", "));
            return Err(Error::NoSplit { folder: folder.to_path_buf(), split, available });
        }
        return dataset_files(&folder.join(split));
    }
    dataset_files(folder)
}

fn dataset_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let file = folder.join(STATE_FILE);
    if !file.exists() {
        // A folder of images, or none that can be read.
        return Ok(vec![folder.to_path_buf()]);
    }
    let state: State = read_json(&file)?;
    let names = state._data_files.into_iter().map(|data| PathBuf::from(data.filename));
    let is_inside =
        |name: &PathBuf| matches!(*name.components().collect::<Vec<_>>(), [Component::Normal(_)]);
    let files = names.map(|name| match is_inside(&name) {
        true => Ok(folder.join(name)),
        false => Err(Error::bad_file(
            &file,
            "state.json",
            format!("{} is not a file of this folder", name.display()),
        )),
    });
    let files = files.collect::<Result<Vec<_>>>()?;
    match files.is_empty() {
        true => Err(Error::NoRows { files: folder.display().to_string() }),
        false => Ok(files),
    }
}

fn read_json<T: for<'json> Deserialize<'json>>(file: &Path) -> Result<T> {
    let bytes = read_description(file).map_err(Error::io(file, "read"))?;
    serde_json::from_slice(&bytes).map_err(|error| Error::bad_file(file, "JSON", error))
}
