//! The life of a job: its states, its folders and records, the clusters that may place it, the store,
//! the scheduler, the supervisor of its runner, and the doctor, which rebuilds a store from the folders, and backups of
//! all that.
//! Imports `access`, `host` and `settings`.

pub(crate) mod backup;
pub(crate) mod cluster;
mod deep_folder;
pub(crate) mod doctor;
#[cfg(test)]
mod formats;
pub(crate) mod history;
mod limits;
pub(crate) mod lost_store;
pub(crate) mod one_line;
pub(crate) mod record;
pub(crate) mod reserve;
pub(crate) mod restored;
pub(crate) mod run_dir;
pub(crate) mod scheduler;
pub(crate) mod state;
pub(crate) mod state_lock;
pub(crate) mod store;
pub(crate) mod supervisor;
pub(crate) mod wire;
