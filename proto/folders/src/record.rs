//! `record.json`: everything in a folder that traind wrote for a job.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use traind_durable::read_regular;

use crate::checkpoints::{checkpoint_steps, is_checkpoint_of_traind, job_of_checkpoint};
use crate::names::{is_result, is_written};
use crate::{NOTE_BYTES_MAX, NOTES, note};

pub(crate) const RECORD: &str = "record.json";
const FORMAT: u32 = 1;
/// Threads of a run change its record one after the other.
static CHANGES: Mutex<()> = Mutex::new(());

/// The contents of a folder that traind wrote for the job that wrote there last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    format: u32,
    /// The id of the job.
    pub job: String,
    /// The name of the job.
    pub name: String,
    /// Files that were there before the job, except recorded ones and those that the job has replaced.
    before: BTreeSet<String>,
    /// Files of the job, and those of earlier ones whose output it continues or overwrites.
    files: BTreeSet<String>,
    /// Steps of the checkpoints, from before they are written.
    checkpoints: BTreeSet<u64>,
}

/// A job that begins to write into a folder.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The id of the job.
    pub job: &'a str,
    /// The name of the job.
    pub name: &'a str,
}

impl Record {
    /// Returns the record of a folder, if it has one. Fails if it is damaged or of a later version.
    pub fn read(folder: &Path) -> io::Result<Option<Record>> {
        let text = match read_regular(&note(folder, RECORD), NOTE_BYTES_MAX) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        Record::parse(&text).map(Some)
    }

    /// Parses the content of a record.
    pub fn parse(text: &[u8]) -> io::Result<Record> {
        let record: Record = serde_json::from_slice(text)?;
        match record.format {
            FORMAT => Ok(record),
            format => Err(io::Error::new(
                ErrorKind::InvalidData,
                format!("its format {format} is unknown to this version"),
            )),
        }
    }

    /// Returns the content that [`Record::parse`] reads.
    pub fn to_json(&self) -> io::Result<Vec<u8>> {
        Ok(serde_json::to_vec_pretty(self)?)
    }

    /// Begins the record of a job in an existing folder, which has no conflict with it. The job takes over what
    /// earlier ones are recorded to have written.
    pub fn begin(folder: &Path, claim: Claim<'_>) -> io::Result<Record> {
        let _one = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
        let found = Record::read(folder)?;
        let known = match &found {
            Some(record) if record.job == claim.job => return Ok(record.clone()),
            Some(_) => BTreeSet::new(),
            None => known_checkpoints(folder)?,
        };
        let record = Record::of_claim(claim, found, written_files(folder)?, known);
        record.write(folder)?;
        Ok(record)
    }

    /// The record of a job where `found` was the record, beside files whose names it might write. `known` are the
    /// checkpoints of traind where there was no record.
    pub(crate) fn of_claim(
        claim: Claim<'_>,
        found: Option<Record>,
        written: BTreeSet<String>,
        known: BTreeSet<u64>,
    ) -> Record {
        let (job, name) = (claim.job.to_owned(), claim.name.to_owned());
        match found {
            Some(record) if record.job == job => record,
            Some(record) => {
                let before = written.difference(&record.files).cloned().collect();
                Record { job, name, before, ..record }
            }
            None => {
                let files = BTreeSet::new();
                Record { format: FORMAT, job, name, before: written, files, checkpoints: known }
            }
        }
    }

    /// Adds files that the job writes, in the place of others of the same names.
    pub fn insert_files(&mut self, names: impl IntoIterator<Item = String>) {
        for name in names {
            self.before.remove(&name);
            self.files.insert(name);
        }
    }

    /// Adds a checkpoint that is about to be written.
    pub fn insert_checkpoint(&mut self, step: u64) {
        self.checkpoints.insert(step);
    }

    /// Forgets a checkpoint that was removed.
    pub fn forget_checkpoint(&mut self, step: u64) {
        self.checkpoints.remove(&step);
    }

    /// Changes the record of a folder, where it has one.
    pub fn update(folder: &Path, change: impl FnOnce(&mut Record)) -> io::Result<()> {
        let _one = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(found) = Record::read(folder)? else { return Ok(()) };
        let mut record = found.clone();
        change(&mut record);
        if record == found { Ok(()) } else { record.write(folder) }
    }

    /// Records files that the job has written, in the place of others of the same names.
    pub fn add_files(folder: &Path, names: impl IntoIterator<Item = String>) -> io::Result<()> {
        Record::update(folder, |record| record.insert_files(names))
    }

    /// Records the results of an evaluation that are in a folder.
    pub fn add_results(folder: &Path) -> io::Result<()> {
        let found = written_files(folder)?;
        Record::add_files(folder, found.into_iter().filter(|name| is_result(name)))
    }

    /// Records a checkpoint that is about to be written. Returns true if traind wrote the one that may be there, or
    /// if the folder has no record.
    pub fn add_checkpoint(folder: &Path, step: u64) -> io::Result<bool> {
        let mut is_known = true;
        Record::update(folder, |record| is_known = !record.checkpoints.insert(step))?;
        Ok(is_known)
    }

    /// Whether traind wrote the file `name`, if it is there. Only the job itself may have written files that are not
    /// recorded yet.
    pub fn has_file(&self, name: &str, is_own: bool) -> bool {
        self.files.contains(name) || is_own && is_written(name) && !self.before.contains(name)
    }

    /// Whether traind wrote the checkpoint of `step`, if it is there.
    pub fn has_checkpoint(&self, step: u64) -> bool {
        self.checkpoints.contains(&step)
    }

    /// The recorded files.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(String::as_str)
    }

    fn write(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder.join(NOTES))?;
        traind_durable::replace(&note(folder, RECORD), &self.to_json()?)
    }
}

/// The files of a folder whose names a run might write.
fn written_files(folder: &Path) -> io::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if is_written(&name) {
            found.insert(name);
        }
    }
    Ok(found)
}

/// The checkpoints of versions of traind that kept no record, known by their manifests.
fn known_checkpoints(folder: &Path) -> io::Result<BTreeSet<u64>> {
    let found = checkpoint_steps(folder)?.into_iter();
    Ok(found.filter(|(_, path)| is_checkpoint_of_traind(path)).map(|(step, _)| step).collect())
}

/// Whether a folder has checkpoints that `job` wrote before there were records.
pub(crate) fn has_checkpoint_of(folder: &Path, job: &str) -> io::Result<bool> {
    let found = checkpoint_steps(folder)?;
    Ok(found.iter().any(|(_, path)| job_of_checkpoint(path).as_deref() == Some(job)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(job: &str) -> Claim<'_> {
        Claim { job, name: "a name" }
    }

    #[test]
    fn files_from_before_are_not_the_jobs() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("README.md"), "mine").unwrap();
        let record = Record::begin(folder.path(), claim("a")).unwrap();
        assert!(!record.has_file("README.md", true));
        assert!(record.has_file("config.json", true), "written before a crash");
        assert!(!record.has_file("config.json", false));
        assert!(!record.has_file("notes.txt", true));
        Record::add_files(folder.path(), ["config.json".to_owned()]).unwrap();
        let record = Record::read(folder.path()).unwrap().unwrap();
        assert!(record.has_file("config.json", false));
        let taken_over = Record::begin(folder.path(), claim("b")).unwrap();
        assert_eq!(taken_over.job, "b");
        assert!(
            taken_over.has_file("config.json", false) && !taken_over.has_file("README.md", true)
        );
    }

    #[test]
    fn checkpoints_are_known_from_before_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Record::add_checkpoint(folder.path(), 5).unwrap(), "without a record");
        fs::create_dir(folder.path().join("checkpoint-5")).unwrap();
        Record::begin(folder.path(), claim("a")).unwrap();
        assert!(!Record::add_checkpoint(folder.path(), 5).unwrap(), "it is not traind's");
        assert!(Record::add_checkpoint(folder.path(), 5).unwrap());
        assert!(Record::read(folder.path()).unwrap().unwrap().has_checkpoint(5));
    }

    #[test]
    fn records_of_later_versions_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        Record::begin(folder.path(), claim("a")).unwrap();
        let path = note(folder.path(), RECORD);
        let text = fs::read_to_string(&path).unwrap().replace("\"format\": 1", "\"format\": 2");
        fs::write(&path, text).unwrap();
        let error = Record::read(folder.path()).unwrap_err().to_string();
        assert_eq!(error, "its format 2 is unknown to this version");
    }
}
