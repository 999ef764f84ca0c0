//! A new store from the job folders. The damaged one is kept beside it.
//!
//! Each job is told again: see `retell`.

use std::fs;
use std::path::{Path, PathBuf};

use super::retell::retell;
use super::{DoctorError, Patient};
use crate::clock;
use crate::jobs::record;
use crate::jobs::run_dir::RunDir;
use crate::jobs::store::Store;

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Rebuilt {
    pub jobs: usize,
    /// Where the damaged store lies now.
    pub kept: Option<PathBuf>,
    /// Folders that could not be read, and why.
    pub lost: Vec<(String, String)>,
}

/// Makes the store anew.
pub(crate) fn rebuild(patient: &Patient) -> Result<Rebuilt, DoctorError> {
    let mut rebuilt = Rebuilt::default();
    let mut found = Vec::new();
    for id in patient.job_ids()? {
        let run_dir = RunDir::new(&patient.state_dir, &id);
        match record::read(&run_dir) {
            Ok(Some(new)) => found.push((new, run_dir)),
            Ok(None) => rebuilt.lost.push((id, "there is no job.json in it".to_owned())),
            Err(error) => rebuilt.lost.push((id, error.to_string())),
        }
    }
    found.sort_by_key(|(new, _)| (new.create_time, new.id.clone()));
    let draft = patient.state_dir.join("traind.db.rebuilt");
    remove_store(&draft)?;
    let store = Store::open_draft(&draft)?;
    for (new, run_dir) in found {
        match retell(&store, new.clone(), &run_dir) {
            Ok(()) => rebuilt.jobs += 1,
            Err(error) => rebuilt.lost.push((new.id, error.to_string())),
        }
    }
    store.fold()?;
    drop(store);
    sync(&draft)?;
    rebuilt.kept = keep_damaged(patient)?;
    rename(&draft, &patient.store_path())?;
    Ok(rebuilt)
}

fn keep_damaged(patient: &Patient) -> Result<Option<PathBuf>, DoctorError> {
    let path = patient.store_path();
    if !path.exists() {
        remove_store(&path)?;
        return Ok(None);
    }
    let kept = path.with_extension(format!("db.damaged-{}", clock::now() / 1_000_000));
    for suffix in ["", "-wal", "-shm"] {
        let from = with_suffix(&path, suffix);
        if from.exists() {
            rename(&from, &with_suffix(&kept, suffix))?;
        }
    }
    Ok(Some(kept))
}

/// A store that is not there is removed already.
fn remove_store(path: &Path) -> Result<(), DoctorError> {
    for path in ["", "-wal", "-shm"].map(|suffix| with_suffix(path, suffix)) {
        if path.exists() {
            fs::remove_file(&path).map_err(|source| DoctorError::Io {
                action: "remove",
                path,
                source,
            })?;
        }
    }
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn sync(path: &Path) -> Result<(), DoctorError> {
    let synced = fs::File::open(path).and_then(|file| file.sync_all());
    synced.map_err(|source| DoctorError::Io { action: "sync", path: path.to_owned(), source })
}

fn rename(from: &Path, to: &Path) -> Result<(), DoctorError> {
    let error = |source| DoctorError::Io { action: "rename", path: from.to_owned(), source };
    fs::rename(from, to).map_err(error)?;
    let folder = to.parent().unwrap_or(Path::new("/"));
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(error)
}
