//! Rebuilds the store from the job folders. The damaged one is kept beside it.

use std::path::PathBuf;

use super::files::{keep, remove_store, rename, sync};
use super::replay::replay_job;
use super::{DoctorError, StoppedState};
use crate::jobs::record;
use crate::jobs::run_dir::RunDir;
use crate::jobs::store::Store;

/// The result of a rebuild.
#[derive(Debug, Default)]
pub(crate) struct Rebuilt {
    pub jobs: usize,
    /// The new path of the damaged store.
    pub kept: Option<PathBuf>,
    /// Parts that no records have, and that the damaged store does not show either.
    pub unreadable: Vec<&'static str>,
    /// Ids of jobs that could not be restored, with the errors.
    pub lost: Vec<(String, String)>,
}

/// Rebuilds the store.
pub(crate) fn rebuild(state: &StoppedState) -> Result<Rebuilt, DoctorError> {
    let mut rebuilt = Rebuilt::default();
    let mut found = Vec::new();
    for id in state.job_ids()? {
        let run_dir = RunDir::new(&state.state_dir, &id);
        match record::read(&run_dir) {
            Ok(Some(new)) => found.push((new, run_dir)),
            Ok(None) => rebuilt.lost.push((id, "its folder has no job.json".to_owned())),
            Err(error) => rebuilt.lost.push((id, error.to_string())),
        }
    }
    found.sort_by_key(|(new, _)| (new.create_time, new.id.clone()));
    let draft = state.state_dir.join("traind.db.rebuilt");
    remove_store(&draft)?;
    let store = Store::open_draft(&draft)?;
    for (new, run_dir) in found {
        match replay_job(&store, new.clone(), &run_dir) {
            Ok(()) => rebuilt.jobs += 1,
            Err(error) => rebuilt.lost.push((new.id, error.to_string())),
        }
    }
    rebuilt.unreadable = store.salvage(&state.store_path())?;
    store.checkpoint()?;
    let known = store.ids()?;
    drop(store);
    sync(&draft)?;
    rebuilt.kept = keep_damaged(state)?;
    rename(&draft, &state.store_path())?;
    for (id, why) in rebuilt.lost.iter_mut().filter(|(id, _)| !known.contains(id)) {
        // Otherwise, the next daemon would refuse the store for not having this job.
        match record::set_aside(&state.state_dir, id) {
            Ok(folder) => why.push_str(&format!("; its records are in {}", folder.display())),
            Err(error) => why.push_str(&format!("; its records cannot be moved away: {error}")),
        }
    }
    Ok(rebuilt)
}

fn keep_damaged(state: &StoppedState) -> Result<Option<PathBuf>, DoctorError> {
    let path = state.store_path();
    if !path.exists() {
        remove_store(&path)?;
        return Ok(None);
    }
    keep(&path, "damaged").map(Some)
}
