//! `manifest.json`: the files of a checkpoint with their checksums. It is written last, and detects
//! any changed bit in the folder, including its own.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{CheckpointProblem, RunResult};
use crate::output::{self, MANIFEST, failed};

const FORMAT: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    format: u32,
    /// The job that wrote the checkpoint.
    pub job_id: String,
    pub step: u64,
    /// The files, sorted by name.
    files: Vec<FileEntry>,
    /// The checksum of this manifest with an empty checksum.
    blake3: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileEntry {
    pub name: String,
    pub bytes: u64,
    blake3: String,
}

impl Manifest {
    /// Writes the manifest of all files in `folder` and makes their names durable. Those that are `known`, from the
    /// hosts that wrote them, are not read back.
    pub(super) fn write(
        folder: &Path,
        job_id: &str,
        step: u64,
        known: &[FileEntry],
    ) -> RunResult<Manifest> {
        let files = entries(folder, known).map_err(failed("read back", folder))?;
        let (job_id, blake3) = (job_id.to_owned(), String::new());
        let mut manifest = Manifest { format: FORMAT, job_id, step, files, blake3 };
        let path = folder.join(MANIFEST);
        let serialize = |manifest: &Manifest| {
            manifest.render().map_err(|error| failed("serialize", &path)(error.into()))
        };
        manifest.blake3 = checksum(&serialize(&manifest)?);
        output::write(&path, &serialize(&manifest)?)?;
        Ok(manifest)
    }

    /// Reads the manifest of a folder.
    pub(super) fn read(folder: &Path) -> Result<Manifest, CheckpointProblem> {
        let unreadable = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound if is_foreign(folder) => CheckpointProblem::Foreign,
            _ => CheckpointProblem::Unreadable { file: MANIFEST.into(), source },
        };
        let text = fs::read(folder.join(MANIFEST)).map_err(unreadable)?;
        let invalid = |source| CheckpointProblem::Invalid { file: MANIFEST, source };
        let manifest: Manifest = serde_json::from_slice(&text).map_err(invalid)?;
        let unsigned = Manifest { blake3: String::new(), ..manifest.clone() };
        let is_signed = checksum(&unsigned.render().map_err(invalid)?) == manifest.blake3;
        // A changed bit may parse as the same value.
        if !is_signed || manifest.render().map_err(invalid)? != text {
            return Err(CheckpointProblem::Changed { file: MANIFEST.into() });
        }
        match manifest.format {
            FORMAT => Ok(manifest),
            format => Err(CheckpointProblem::UnknownFormat { format }),
        }
    }

    /// Whether a file is part of the checkpoint.
    pub(super) fn has(&self, name: &str) -> bool {
        self.files.iter().any(|file| file.name == name)
    }

    /// Compares every file of `folder` with the manifest.
    pub(super) fn check(&self, folder: &Path) -> Result<(), CheckpointProblem> {
        for expected in &self.files {
            let file = || PathBuf::from(&expected.name);
            let found = entry(folder, &expected.name)
                .map_err(|source| CheckpointProblem::Unreadable { file: file(), source })?;
            if found != *expected {
                return Err(CheckpointProblem::Changed { file: file() });
            }
        }
        Ok(())
    }

    /// The bytes of all files but the manifest.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    fn render(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec_pretty(self)
    }
}

/// Whether a folder has files that only PyTorch writes, as the Trainer does.
fn is_foreign(folder: &Path) -> bool {
    const FILES: [&str; 4] =
        ["training_args.bin", "optimizer.pt", "scheduler.pt", "pytorch_model.bin"];
    FILES.iter().any(|name| folder.join(name).exists())
}

fn entries(folder: &Path, known: &[FileEntry]) -> io::Result<Vec<FileEntry>> {
    let mut names = Vec::new();
    for file in fs::read_dir(folder)? {
        names.push(file?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let listed = names.iter().filter(|name| *name != MANIFEST);
    let entry = |name: &String| match known.iter().find(|file| file.name == *name) {
        Some(file) => Ok(file.clone()),
        None => entry(folder, name),
    };
    listed.map(entry).collect()
}

/// The size and the checksum of a file.
pub(super) fn entry(folder: &Path, name: &str) -> io::Result<FileEntry> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(folder.join(name))?)?;
    let blake3 = hasher.finalize().to_hex().to_string();
    Ok(FileEntry { name: name.to_owned(), bytes: hasher.count(), blake3 })
}

fn checksum(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_bit_is_detected() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), b"{\"a\": 1}").unwrap();
        fs::write(folder.path().join("optimizer.safetensors"), [0; 40]).unwrap();
        let written = Manifest::write(folder.path(), "job", 7, &[]).unwrap();
        assert_eq!((written.bytes(), written.files.len()), (48, 2));
        let read = || Manifest::read(folder.path()).and_then(|it| it.check(folder.path()));
        read().unwrap();
        for name in [MANIFEST, "config.json", "optimizer.safetensors"] {
            let path = folder.path().join(name);
            let whole = fs::read(&path).unwrap();
            for bit in (0..whole.len() * 8).step_by(5) {
                let mut flipped = whole.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                fs::write(&path, flipped).unwrap();
                assert!(read().is_err(), "bit {bit} of {name}");
            }
            fs::write(&path, &whole[..whole.len() - 1]).unwrap();
            assert!(read().is_err(), "{name} is too short");
            fs::remove_file(&path).unwrap();
            assert!(read().unwrap_err().to_string().contains(name));
            fs::write(&path, whole).unwrap();
        }
        read().unwrap();
    }

    #[test]
    fn a_checkpoint_of_the_trainer_is_named_as_one() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["model.safetensors", "optimizer.pt", "trainer_state.json"] {
            fs::write(folder.path().join(name), b"{}").unwrap();
        }
        let error = Manifest::read(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains("another program") && error.contains("model.name_or_path"),
            "{error}"
        );
        assert!(!error.contains(MANIFEST), "{error}");
    }
}
