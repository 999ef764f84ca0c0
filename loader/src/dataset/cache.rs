//! Tokenized sets on disk: `<cache_dir>/tokens/<key>/`, a manifest and a file for each array.
//!
//! An entry is written beside, synced and renamed, so that it is there in full or not at all and
//! any number of processes may share the folder. Every byte read back is covered by a checksum;
//! an entry that fails is rebuilt. The arrays are in the byte order of the host (little-endian on
//! all supported ones).

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytemuck::Pod;
use serde::{Deserialize, Serialize};

use super::labels::{LabelArrays, Labels};
use super::set::{About, TokenizedSet};
use crate::Source;

/// Raise it whenever the layout or the meaning of an entry changes.
pub(super) const FORMAT_VERSION: u32 = 3;

const MANIFEST: &str = "manifest";
const INPUT_IDS: &str = "input_ids.u32";
const OFFSETS: &str = "offsets.u64";
const TOKEN_TYPE_IDS: &str = "token_type_ids.u8";
const MASKING: &str = "masking.u8";
const CONTEXT_OFFSETS: &str = "context_offsets.u32x2";
const SOURCE_ROWS: &str = "source_rows.u32";
const LABELS: &str = "labels.i32";
const NUMBERS: &str = "labels.f32";
const START_POSITIONS: &str = "start_positions.i32";
const END_POSITIONS: &str = "end_positions.i32";
const UNFINISHED_PREFIX: &str = ".unfinished-";

/// A writer that died leaves its folder behind; after this long nobody can still be writing it.
const UNFINISHED_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// The place of one set.
pub(super) struct Cache {
    folder: PathBuf,
    entry: PathBuf,
}

/// What the cache holds for a key.
pub(super) enum Lookup {
    Found(Box<TokenizedSet>),
    Absent,
    Corrupt(String),
}

#[derive(Serialize, Deserialize)]
struct Manifest {
    about: About,
    arrays: Vec<ArrayFile>,
}

#[derive(Serialize, Deserialize)]
struct ArrayFile {
    name: String,
    bytes: u64,
    blake3: String,
}

impl Cache {
    pub(super) fn new(cache_dir: &Path, key: &str) -> Self {
        let folder = cache_dir.join("tokens");
        Self { entry: folder.join(key), folder }
    }

    /// Reads the set. The paths of the files become those of `source`: content decides what an
    /// entry is, and the same content may lie elsewhere now.
    pub(super) fn load(&self, source: &Source) -> Lookup {
        if !self.entry.exists() {
            return Lookup::Absent;
        }
        match self.read() {
            Ok(mut set) => {
                for (file, path) in set.about.files.iter_mut().zip(source.files()) {
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

    fn read(&self) -> Result<TokenizedSet, String> {
        let manifest = self.read_manifest()?;
        let set = TokenizedSet {
            input_ids: self.read_array(&manifest, INPUT_IDS)?,
            offsets: self.read_array(&manifest, OFFSETS)?,
            token_type_ids: self.read_optional(&manifest, TOKEN_TYPE_IDS)?,
            masking: self.read_optional(&manifest, MASKING)?,
            context_offsets: self.read_optional(&manifest, CONTEXT_OFFSETS)?,
            source_rows: self.read_optional(&manifest, SOURCE_ROWS)?,
            labels: self.read_labels(&manifest)?,
            about: manifest.about,
        };
        set.check()?;
        Ok(set)
    }

    fn read_manifest(&self) -> Result<Manifest, String> {
        let text =
            fs::read_to_string(self.entry.join(MANIFEST)).map_err(|error| error.to_string())?;
        let (checksum, json) = text.split_once('\n').ok_or("the manifest is cut short")?;
        if blake3::hash(json.as_bytes()).to_hex().as_str() != checksum {
            return Err("the manifest's checksum differs".to_owned());
        }
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    fn read_labels(&self, manifest: &Manifest) -> Result<Labels, String> {
        Ok(match manifest.about.labels {
            LabelArrays::None => Labels::None,
            LabelArrays::InputIds => Labels::InputIds,
            LabelArrays::Class => Labels::Class(self.read_array(manifest, LABELS)?),
            LabelArrays::Token => Labels::Token(self.read_array(manifest, LABELS)?),
            LabelArrays::Numbers { width } => {
                Labels::Numbers { width, values: self.read_array(manifest, NUMBERS)? }
            }
            LabelArrays::MultiLabel { classes } => {
                Labels::MultiLabel { classes, values: self.read_array(manifest, NUMBERS)? }
            }
            LabelArrays::Span => Labels::Span {
                start_positions: self.read_array(manifest, START_POSITIONS)?,
                end_positions: self.read_array(manifest, END_POSITIONS)?,
            },
        })
    }

    fn read_optional<T: Pod>(
        &self,
        manifest: &Manifest,
        name: &str,
    ) -> Result<Option<Vec<T>>, String> {
        let stored = manifest.arrays.iter().any(|array| array.name == name);
        stored.then(|| self.read_array(manifest, name)).transpose()
    }

    fn read_array<T: Pod>(&self, manifest: &Manifest, name: &str) -> Result<Vec<T>, String> {
        let wrong = |what: &str| format!("{name}: {what}");
        let array = manifest.arrays.iter().find(|array| array.name == name);
        let array = array.ok_or_else(|| wrong("missing"))?;
        let mut file =
            File::open(self.entry.join(name)).map_err(|error| wrong(&error.to_string()))?;
        let found = file.metadata().map_err(|error| wrong(&error.to_string()))?.len();
        if found != array.bytes || found % size_of::<T>() as u64 != 0 {
            return Err(wrong(&format!("{found} bytes, expected {}", array.bytes)));
        }
        let mut values = vec![T::zeroed(); found as usize / size_of::<T>()];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut values);
        file.read_exact(bytes).map_err(|error| wrong(&error.to_string()))?;
        match checksum(bytes) == array.blake3 {
            true => Ok(values),
            false => Err(wrong("the checksum differs")),
        }
    }

    /// Writes the set; the error is a warning, because training can go on without a cache.
    pub(super) fn store(&self, set: &TokenizedSet) -> Result<(), String> {
        let stored = self.try_store(set);
        stored.map_err(|error| format!("{}: tokens were not cached: {error}", self.entry.display()))
    }

    fn try_store(&self, set: &TokenizedSet) -> std::io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        self.remove_unfinished()?;
        let unfinished =
            tempfile::Builder::new().prefix(UNFINISHED_PREFIX).tempdir_in(&self.folder)?;
        write_entry(unfinished.path(), set)?;
        if fs::rename(unfinished.path(), &self.entry).is_err() && self.read().is_err() {
            // A corrupt entry is in the way. A sound one is another process's, and as good.
            fs::remove_dir_all(&self.entry)?;
            fs::rename(unfinished.path(), &self.entry)?;
        }
        File::open(&self.folder)?.sync_all()
    }

    fn remove_unfinished(&self) -> std::io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let unfinished = entry.file_name().to_string_lossy().starts_with(UNFINISHED_PREFIX);
            let age =
                entry.metadata().and_then(|found| found.modified()).map(|time| time.elapsed());
            if unfinished && matches!(age, Ok(Ok(age)) if age > UNFINISHED_AGE_MAX) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
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

fn write_entry(folder: &Path, set: &TokenizedSet) -> std::io::Result<()> {
    let arrays = arrays(set);
    for (name, bytes) in &arrays {
        write_synced(&folder.join(name), bytes)?;
    }
    let arrays = arrays.into_iter().map(|(name, bytes)| ArrayFile {
        name: name.to_owned(),
        bytes: bytes.len() as u64,
        blake3: checksum(bytes),
    });
    let manifest = Manifest { about: set.about.clone(), arrays: arrays.collect() };
    let json = serde_json::to_string_pretty(&manifest)?;
    let manifest = format!("{}\n{json}", blake3::hash(json.as_bytes()).to_hex());
    write_synced(&folder.join(MANIFEST), manifest.as_bytes())?;
    File::open(folder)?.sync_all()
}

/// The arrays of a set by their names, those that are absent left out.
fn arrays(set: &TokenizedSet) -> Vec<(&'static str, &[u8])> {
    let mut arrays: Vec<(&str, &[u8])> = vec![
        (INPUT_IDS, bytemuck::cast_slice(&set.input_ids)),
        (OFFSETS, bytemuck::cast_slice(&set.offsets)),
    ];
    arrays.extend(set.token_type_ids.as_deref().map(|ids| (TOKEN_TYPE_IDS, ids)));
    arrays.extend(set.masking.as_deref().map(|parts| (MASKING, parts)));
    let pairs = set.context_offsets.as_deref().map(bytemuck::cast_slice);
    arrays.extend(pairs.map(|bytes| (CONTEXT_OFFSETS, bytes)));
    let rows = set.source_rows.as_deref().map(bytemuck::cast_slice);
    arrays.extend(rows.map(|bytes| (SOURCE_ROWS, bytes)));
    match &set.labels {
        Labels::None | Labels::InputIds => {}
        Labels::Class(ids) | Labels::Token(ids) => {
            arrays.push((LABELS, bytemuck::cast_slice(ids)));
        }
        Labels::Numbers { values, .. } | Labels::MultiLabel { values, .. } => {
            arrays.push((NUMBERS, bytemuck::cast_slice(values)));
        }
        Labels::Span { start_positions, end_positions } => {
            arrays.push((START_POSITIONS, bytemuck::cast_slice(start_positions)));
            arrays.push((END_POSITIONS, bytemuck::cast_slice(end_positions)));
        }
    }
    arrays
}

fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn checksum(bytes: &[u8]) -> String {
    blake3::Hasher::new().update_rayon(bytes).finalize().to_hex().to_string()
}
