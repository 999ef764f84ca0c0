//! A new store from the job folders. The damaged one is kept beside it.
//!
//! Each job is told again: accepted, placed, what its runner logged, how it ended. A runner
//! that lives is left to the next daemon, which finds it as after any other restart.

use std::fs;
use std::path::{Path, PathBuf};

use traind_job_file::RunSpec;
use traind_proto::reasons;
use traind_proto::v1::{self, event::Kind};

use super::{DoctorError, Patient};
use crate::clock;
use crate::record;
use crate::state::Outcome;
use crate::store::{NewJob, Store, StoreError};
use crate::supervisor::RunDir;
use crate::supervisor::claim::{Claim, Identity};

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
    let store = Store::open(&draft)?;
    for (new, run_dir) in found {
        match retell(&store, new.clone(), &run_dir) {
            Ok(()) => rebuilt.jobs += 1,
            Err(error) => rebuilt.lost.push((new.id, error.to_string())),
        }
    }
    store.fold()?;
    drop(store);
    rebuilt.kept = keep_damaged(patient)?;
    rename(&draft, &patient.store_path())?;
    Ok(rebuilt)
}

fn retell(store: &Store, mut new: NewJob, run_dir: &RunDir) -> Result<(), StoreError> {
    if let Some(before) = &new.after
        && store.get(before).is_err()
    {
        new.after = None;
    }
    let id = new.id.clone();
    store.create(&new)?;
    let cancelled = run_dir.cancelled().exists();
    let Ok(spec) = RunSpec::read(run_dir.path()) else {
        // It never had a runner.
        return if cancelled { store.cancel(&id, "cancelled").map(drop) } else { Ok(()) };
    };
    store.place_attempt(&id, &spec.cores, spec.attempt)?;
    if cancelled {
        store.cancel(&id, "cancelled")?;
    }
    let living = is_alive(&run_dir.claim(spec.attempt));
    let finished = replay(store, &id, run_dir)?;
    if living {
        return Ok(());
    }
    match finished {
        Some(finished) if finished.outcome() == v1::Outcome::Completed => {
            store.settle(&id, Outcome::Completed, None)?;
        }
        Some(finished) if finished.outcome() == v1::Outcome::Failed => {
            store.settle(&id, Outcome::Failed, finished.failure)?;
        }
        _ if cancelled => drop(store.settle(&id, Outcome::Cancelled, None)?),
        // It had to leave, for the daemon or for another job.
        Some(_) => drop(store.requeue(&id, "the store was made anew")?),
        None => drop(store.settle(&id, Outcome::Failed, Some(unknown_end()))?),
    }
    Ok(())
}

/// Stores what the runners logged; returns the last word of the last of them.
fn replay(store: &Store, id: &str, run_dir: &RunDir) -> Result<Option<v1::Finished>, StoreError> {
    let (mut offset, mut finished) = (0, None);
    // A log that is damaged or missing tells what it can.
    while let Ok(logged) = run_dir.open_events_log().and_then(|log| log.read_from(offset)) {
        let Some(last) = logged.last() else { break };
        offset = last.next_offset;
        let events: Vec<v1::Event> = logged.into_iter().map(|logged| logged.event).collect();
        for event in &events {
            match &event.kind {
                Some(Kind::Finished(last)) => finished = Some(last.clone()),
                Some(Kind::Started(_)) => finished = None,
                _ => {}
            }
        }
        store.record(id, events, offset)?;
    }
    Ok(finished)
}

fn is_alive(claim: &Path) -> bool {
    let claim = fs::read(claim).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    matches!(claim, Some(Claim::Runner(identity)) if Identity::is_alive(&identity))
}

fn unknown_end() -> v1::Failure {
    v1::Failure {
        reason: reasons::RUNNER_DIED.to_owned(),
        message: "how the runner ended was lost with the store".to_owned(),
        ..Default::default()
    }
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

fn rename(from: &Path, to: &Path) -> Result<(), DoctorError> {
    let error = |source| DoctorError::Io { action: "rename", path: from.to_owned(), source };
    fs::rename(from, to).map_err(error)?;
    let folder = to.parent().unwrap_or(Path::new("/"));
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(error)
}
