//! The folders that unfinished jobs write, compared by their places on the disk.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use traind_folders::{Identity, Place, Relation, step_of_checkpoint};
use traind_job_file::JobFile;

use super::error::Error;
use crate::access::account::{Account, with_rights_of};
use crate::jobs::store::{JobFolders, Store};

type Places = HashMap<String, Vec<Place>>;

/// The places of the folders of unfinished jobs by their ids, as they were when the jobs were submitted.
#[derive(Debug, Default)]
pub(super) struct FoldersInUse(Mutex<Places>);

/// Keeps other jobs from being created, since they might name the same folders.
pub(super) struct Reservation<'a> {
    places: MutexGuard<'a, Places>,
    own: Vec<Place>,
}

impl FoldersInUse {
    /// Refuses a job that would write into the folder of another unfinished job. No job is created until the
    /// reservation is dropped.
    pub(super) fn reserve(
        &self,
        store: &Store,
        job: &JobFile,
        account: Option<Account>,
    ) -> Result<Reservation<'_>, Error> {
        let named = [
            ("output_dir", Some(job.output_dir.as_path())),
            ("checkpoint_dir", job.checkpoint_dir.as_deref()),
        ];
        let named: Vec<(&'static str, &Path)> =
            named.into_iter().filter_map(|(field, path)| Some((field, path?))).collect();
        // A folder that cannot be looked up is refused elsewhere.
        let look_up = || -> Vec<Option<Place>> {
            named.iter().map(|(_, path)| Place::of(path).ok()).collect()
        };
        let own = with_rights_of(account, look_up).map_err(Error::Switch)?;
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let unfinished = store.folders_in_use()?;
        let ids: HashSet<&str> = unfinished.iter().map(|job| job.id.as_str()).collect();
        places.retain(|id, _| ids.contains(id.as_str()));
        for other in &unfinished {
            let theirs = places.entry(other.id.clone()).or_insert_with(|| places_of(other));
            for (&(field, path), place) in named.iter().zip(&own) {
                let Some(place) = place else { continue };
                if theirs.iter().any(|their| is_shared(place, their)) {
                    let folder = path.display().to_string();
                    let (id, state) = (other.id.clone(), other.state);
                    return Err(Error::FolderInUse { field, folder, id, state });
                }
            }
        }
        Ok(Reservation { places, own: own.into_iter().flatten().collect() })
    }
}

impl Reservation<'_> {
    /// Notes the folders of the job that was created.
    pub(super) fn keep(mut self, id: &str) {
        let own = std::mem::take(&mut self.own);
        self.places.insert(id.to_owned(), own);
    }
}

/// The places of a job that was submitted to an earlier daemon.
fn places_of(job: &JobFolders) -> Vec<Place> {
    let folders = [Some(&job.output_dir), job.checkpoint_dir.as_ref()];
    folders.into_iter().flatten().filter_map(|path| Place::of(Path::new(path)).ok()).collect()
}

/// Whether two jobs would write to one place: the same folder, or one in a checkpoint of the other.
fn is_shared(one: &Place, other: &Place) -> bool {
    match (one.relation(other), one, other) {
        (Relation::Same, ..) => true,
        (Relation::Inside, Place::Disk(inner), Place::Disk(outer))
        | (Relation::Around, Place::Disk(outer), Place::Disk(inner)) => {
            is_in_checkpoint(inner, outer)
        }
        _ => false,
    }
}

fn is_in_checkpoint(inner: &Identity, outer: &Identity) -> bool {
    let below = inner.path().strip_prefix(outer.path()).ok();
    below.and_then(|below| step_of_checkpoint(Path::new(below.iter().next()?))).is_some()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn jobs_share_a_folder_by_any_spelling() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("out")).unwrap();
        symlink("out", scratch.path().join("link")).unwrap();
        let place = |path: &str| Place::of(&scratch.path().join(path)).unwrap();
        let check = |one: &str, other: &str, expect| {
            assert_eq!(is_shared(&place(one), &place(other)), expect, "{one} and {other}");
            assert_eq!(is_shared(&place(other), &place(one)), expect, "{other} and {one}");
        };
        check("out", "x/../out", true);
        check("link", "out", true);
        check("link/new", "out/new", true);
        check("out", "link/checkpoint-10/out", true);
        check("out", "out/part", false);
        check("out", "out2", false);
    }
}
