//! Tokenized sets on disk: `<cache_dir>/tokens/<key>/`, a manifest and a file for each array.
//!
//! An entry is written beside, synced and renamed, so that it is there in full or not at all and
//! any number of processes may share the folder. Every byte of it is read once and compared with
//! a checksum before a set is made of it; an entry that fails is rebuilt.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use bytemuck::Pod;
use serde::{Deserialize, Serialize};
use traind_cache::EntryLocks;

use super::array::{Array, ArrayProblem, Seal, write_whole};
use super::build::Built;
use super::images::{self, Images};
use super::mixture::Sources;
use super::rows::Rows;
use super::set::{About, TokenizedSet};
use super::tokens::{self, Tokens};
use super::unfinished::Unfinished;
use crate::error::{Error, Result};
use crate::labels::{LabelArrays, Labels, MultiLabels};
use crate::tasks::TaskSpec;

/// Must be raised whenever the layout or the meaning of an entry changes.
pub(super) const FORMAT_VERSION: u32 = 14;

/// The folder of prepared sets in the cache folder.
pub(super) const FOLDER: &str = "tokens";

const MANIFEST: &str = "manifest";
const STARTS: &str = "starts.u64";
const LENGTHS: &str = "lengths.u32";
const TARGET_LENGTHS: &str = "target_lengths.u32";
const SEQUENCE_LENGTHS: &str = "sequence_lengths.u32";
const SOURCE_ROWS: &str = "source_rows.u32";
const WEIGHTS: &str = "weights.f32";
const CLASSES: &str = "classes.i32";
const CLASS_ENDS: &str = "class_ends.u64";
const NUMBERS: &str = "numbers.f32";
const START_POSITIONS: &str = "start_positions.i32";
const END_POSITIONS: &str = "end_positions.i32";

/// The entry of one set.
pub(super) struct Cache {
    entry: PathBuf,
    task: TaskSpec,
}

/// The content of the cache for a key.
pub(super) enum Lookup {
    Found(Box<TokenizedSet>),
    Absent,
    Corrupt(String),
}

/// Why an entry cannot be used.
#[derive(Debug, thiserror::Error)]
enum Corruption {
    #[error(transparent)]
    Manifest(#[from] std::io::Error),
    #[error("the manifest is cut short")]
    ManifestCut,
    #[error("the manifest's checksum differs")]
    ManifestChecksum,
    #[error(transparent)]
    ManifestContent(#[from] serde_json::Error),
    #[error("{name}: {problem}")]
    Array { name: String, problem: ArrayProblem },
    #[error(transparent)]
    Read(Box<Error>),
    #[error("{0}")]
    Unfit(&'static str),
}

impl Corruption {
    fn of_array(name: &str, problem: ArrayProblem) -> Self {
        Self::Array { name: name.to_owned(), problem }
    }
}

#[derive(Serialize, Deserialize)]
struct Manifest {
    about: About,
    arrays: Vec<Seal>,
}

impl Cache {
    pub(super) fn new(cache_dir: &Path, key: &str, task: &TaskSpec) -> Self {
        Self { entry: cache_dir.join(FOLDER).join(key), task: task.clone() }
    }

    /// Opens the set. The paths of the files become those of `sources`: content decides what an
    /// entry is, and the same content may lie elsewhere now.
    pub(super) fn load(&self, sources: &Sources, locks: &EntryLocks) -> Lookup {
        // Locked before it is read, so that it is not evicted meanwhile.
        if locks.lock(&self.entry).is_err() && !self.entry.exists() {
            return Lookup::Absent;
        }
        match self.read() {
            Ok(mut set) => {
                for (file, path) in set.about.files.iter_mut().zip(sources.files()) {
                    file.path = path.to_path_buf();
                }
                Lookup::Found(Box::new(set))
            }
            Err(reason) => {
                let entry = self.entry.display();
                Lookup::Corrupt(format!("{entry}: cached tokens are corrupt ({reason}); made anew"))
            }
        }
    }

    fn read(&self) -> Result<TokenizedSet, Corruption> {
        let manifest = self.read_manifest()?;
        let tokens = Tokens {
            input_ids: self.open(&manifest, tokens::INPUT_IDS)?,
            token_type_ids: self.open_optional(&manifest, tokens::TOKEN_TYPE_IDS)?,
            masking: self.open_optional(&manifest, tokens::MASKING)?,
            context_offsets: self.open_optional(&manifest, tokens::CONTEXT_OFFSETS)?,
            text_starts: self.open_optional(&manifest, tokens::TEXT_STARTS)?,
            unattended: self.open_optional(&manifest, tokens::UNATTENDED)?,
            labels: self.open_optional(&manifest, tokens::LABELS)?,
            images: self.open_images(&manifest)?,
        };
        let rows = Rows {
            starts: self.read_array(&manifest, STARTS)?,
            lengths: self.read_array(&manifest, LENGTHS)?,
            target_lengths: self.read_optional(&manifest, TARGET_LENGTHS)?,
            sequence_lengths: self.read_optional(&manifest, SEQUENCE_LENGTHS)?,
            source_rows: self.read_array(&manifest, SOURCE_ROWS)?,
            weights: self.read_optional(&manifest, WEIGHTS)?,
        };
        let labels = self.read_labels(&manifest)?;
        let (task, about) = (self.task.clone(), manifest.about);
        let set = TokenizedSet { tokens: tokens.into(), rows, labels, task, about, vectors: None };
        set.check().map_err(Corruption::Unfit)?;
        Ok(set)
    }

    fn read_manifest(&self) -> Result<Manifest, Corruption> {
        let text = fs::read_to_string(self.entry.join(MANIFEST))?;
        let (checksum, json) = text.split_once('\n').ok_or(Corruption::ManifestCut)?;
        if blake3::hash(json.as_bytes()).to_hex().as_str() != checksum {
            return Err(Corruption::ManifestChecksum);
        }
        Ok(serde_json::from_str(json)?)
    }

    fn read_labels(&self, manifest: &Manifest) -> Result<Labels, Corruption> {
        Ok(match manifest.about.labels {
            LabelArrays::None => Labels::None,
            LabelArrays::InputIds => Labels::InputIds,
            LabelArrays::Token => Labels::Token,
            LabelArrays::Class => Labels::Class(self.read_array(manifest, CLASSES)?),
            LabelArrays::Numbers { width } => {
                Labels::Numbers { width, values: self.read_array(manifest, NUMBERS)? }
            }
            LabelArrays::MultiLabel { classes } => Labels::MultiLabel(MultiLabels {
                classes,
                ids: self.read_array(manifest, CLASSES)?,
                ends: self.read_array(manifest, CLASS_ENDS)?,
            }),
            LabelArrays::Span => Labels::Span {
                start_positions: self.read_array(manifest, START_POSITIONS)?,
                end_positions: self.read_array(manifest, END_POSITIONS)?,
            },
        })
    }

    fn open_images(&self, manifest: &Manifest) -> Result<Option<Images>, Corruption> {
        let Some(bytes) = self.open_optional(manifest, images::IMAGES)? else { return Ok(None) };
        Ok(Some(Images { bytes, ends: self.open(manifest, images::IMAGE_ENDS)? }))
    }

    fn read_array<T: Pod>(&self, manifest: &Manifest, name: &str) -> Result<Vec<T>, Corruption> {
        read_whole(&self.open(manifest, name)?)
    }

    /// Reads an array that only some tasks have; empty where it is absent.
    fn read_optional<T: Pod>(&self, manifest: &Manifest, name: &str) -> Result<Vec<T>, Corruption> {
        self.open_optional(manifest, name)?.map_or(Ok(Vec::new()), |array| read_whole(&array))
    }

    fn open<T: Pod>(&self, manifest: &Manifest, name: &str) -> Result<Array<T>, Corruption> {
        self.open_optional(manifest, name)?
            .ok_or_else(|| Corruption::of_array(name, ArrayProblem::Missing))
    }

    fn open_optional<T: Pod>(
        &self,
        manifest: &Manifest,
        name: &str,
    ) -> Result<Option<Array<T>>, Corruption> {
        let seal = manifest.arrays.iter().find(|seal| seal.name == name);
        let open = |seal| Array::open(&self.entry, seal);
        seal.map(open).transpose().map_err(|problem| Corruption::of_array(name, problem))
    }

    /// Completes the set in `folder` and gives it its name.
    pub(super) fn store(
        &self,
        built: &Built,
        folder: Unfinished,
        locks: &EntryLocks,
    ) -> Result<()> {
        let stored = write_entry(folder.path(), built)
            .and_then(|()| self.rename(folder.path()).map_err(Error::store(&self.entry)));
        drop(folder);
        // Fails only on a file system without locks, where nothing is ever evicted.
        let _ = locks.lock(&self.entry);
        stored
    }

    fn rename(&self, unfinished: &Path) -> std::io::Result<()> {
        if fs::rename(unfinished, &self.entry).is_err() && self.read().is_err() {
            // A corrupt entry is replaced. A valid one of another process is as good.
            fs::remove_dir_all(&self.entry)?;
            fs::rename(unfinished, &self.entry)?;
        }
        File::open(self.entry.parent().unwrap_or(&self.entry))?.sync_all()
    }
}

impl Lookup {
    pub(super) fn warning(self) -> Option<String> {
        match self {
            Self::Corrupt(warning) => Some(warning),
            Self::Found(_) | Self::Absent => None,
        }
    }
}

/// Writes what is not in `folder` yet.
fn read_whole<T: Pod>(array: &Array<T>) -> Result<Vec<T>, Corruption> {
    array.read(0..array.len()).map_err(|error| Corruption::Read(Box::new(error)))
}

fn write_entry(folder: &Path, built: &Built) -> Result<()> {
    let Built { set, seals } = built;
    let mut arrays = seals.clone();
    arrays.push(write_whole(folder, STARTS, &set.rows.starts)?);
    arrays.push(write_whole(folder, LENGTHS, &set.rows.lengths)?);
    if let Some(lengths) = set.target_lengths() {
        arrays.push(write_whole(folder, TARGET_LENGTHS, lengths)?);
    }
    if !set.rows.sequence_lengths.is_empty() {
        arrays.push(write_whole(folder, SEQUENCE_LENGTHS, &set.rows.sequence_lengths)?);
    }
    arrays.push(write_whole(folder, SOURCE_ROWS, &set.rows.source_rows)?);
    if !set.rows.weights.is_empty() {
        arrays.push(write_whole(folder, WEIGHTS, &set.rows.weights)?);
    }
    match &set.labels {
        Labels::None | Labels::InputIds | Labels::Token => {}
        Labels::Class(ids) => arrays.push(write_whole(folder, CLASSES, ids)?),
        Labels::Numbers { values, .. } => arrays.push(write_whole(folder, NUMBERS, values)?),
        Labels::MultiLabel(labels) => {
            arrays.push(write_whole(folder, CLASSES, &labels.ids)?);
            arrays.push(write_whole(folder, CLASS_ENDS, &labels.ends)?);
        }
        Labels::Span { start_positions, end_positions } => {
            arrays.push(write_whole(folder, START_POSITIONS, start_positions)?);
            arrays.push(write_whole(folder, END_POSITIONS, end_positions)?);
        }
    }
    let manifest = Manifest { about: set.about.clone(), arrays };
    write_manifest(folder, &manifest).map_err(Error::store(folder))
}

fn write_manifest(folder: &Path, manifest: &Manifest) -> std::io::Result<()> {
    let json = serde_json::to_string_pretty(manifest)?;
    let mut file = File::create_new(folder.join(MANIFEST))?;
    write!(file, "{}\n{json}", blake3::hash(json.as_bytes()).to_hex())?;
    file.sync_all()?;
    File::open(folder)?.sync_all()
}
