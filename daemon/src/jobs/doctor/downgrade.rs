//! Takes the store back to an earlier version. That of this version is kept beside it.

use std::path::PathBuf;

use super::files::{keep, remove_store, rename, sync};
use super::{DoctorError, StoppedState};
use crate::jobs::history;
use crate::jobs::run_dir::RunDir;
use crate::jobs::store::{self, Downgraded, Store, StoreError, is_blank, store_version};

/// Takes the store back to `version`, by default the previous one. Returns the new path of the store of this
/// version, too.
pub(crate) fn downgrade(
    state: &StoppedState,
    version: Option<usize>,
) -> Result<(Downgraded, PathBuf), DoctorError> {
    let path = state.store_path();
    if is_blank(&path) {
        return Err(StoreError::Missing { path }.into());
    }
    finish_removals(state)?;
    let draft = state.state_dir.join("traind.db.downgraded");
    remove_store(&draft)?;
    let downgraded = store::downgrade(&path, &draft, version)?;
    sync(&draft)?;
    let kept = keep(&path, &format!("version-{}", store_version()))?;
    rename(&draft, &path)?;
    Ok((downgraded, kept))
}

/// Removes the folders of removed jobs. An earlier version might not know that they are to be removed, and would
/// take them for jobs that the store has lost.
fn finish_removals(state: &StoppedState) -> Result<(), DoctorError> {
    let store = Store::open(&state.store_path())?;
    let removed = store.removals()?;
    for id in &removed {
        let run_dir = RunDir::new(&state.state_dir, id);
        history::remove(&run_dir).map_err(|source| DoctorError::Io {
            action: "remove",
            path: run_dir.path().to_owned(),
            source,
        })?;
    }
    store.removal_done(&removed)?;
    Ok(store.checkpoint()?)
}
