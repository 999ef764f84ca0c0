//! The folders that unfinished jobs write, compared by their places on the disk. They are kept by keys, so
//! that a submission does not look at every job of a long queue.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use traind_folders::{FolderKey, Identity, Place, Relation, step_of_checkpoint};
use traind_job_file::JobFile;

use super::error::Error;
use crate::access::account::{Account, with_rights_of};
use crate::jobs::store::{JobFolders, Store, StoreError};

/// The places of the folders of unfinished jobs, as they were when the jobs were submitted.
#[derive(Debug, Default)]
pub(super) struct FoldersInUse(Mutex<Places>);

/// Keeps other jobs from being created, since they might name the same folders.
pub(super) struct Reservation<'a> {
    places: MutexGuard<'a, Places>,
    own: Vec<Place>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Disk(FolderKey),
    Bucket(Vec<String>),
}

/// Places of jobs, some of which may have ended.
#[derive(Debug, Default)]
struct Places {
    /// The folders by job id.
    jobs: HashMap<String, Vec<Place>>,
    /// Ids of jobs by the keys of their folders.
    by_folder: HashMap<Key, Vec<String>>,
    /// Ids of jobs with a folder in a checkpoint, by the keys of the folder of that checkpoint.
    by_checkpoints: HashMap<Key, Vec<String>>,
    /// The number of the newest job that was looked at.
    newest: i64,
    /// How many jobs were left when those that had ended were last removed.
    swept: usize,
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
        places.update(store)?;
        for (&(field, path), place) in named.iter().zip(&own) {
            let Some(place) = place else { continue };
            for id in places.sharing(place) {
                match store.state_of(&id)?.filter(|state| !state.is_terminal()) {
                    Some(state) => {
                        let folder = path.display().to_string();
                        return Err(Error::FolderInUse { field, folder, id, state });
                    }
                    None => places.remove(&id),
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
        self.places.insert(id, own);
    }
}

impl Places {
    /// Adds the jobs that were stored since, and removes those that have ended once they are about half of
    /// all.
    fn update(&mut self, store: &Store) -> Result<(), StoreError> {
        const SWEEP_MIN: usize = 64;
        for job in store.folders_after(self.newest)? {
            self.newest = job.number;
            if !self.jobs.contains_key(&job.id) {
                self.insert(&job.id, places_of(&job));
            }
        }
        if self.jobs.len() > 2 * self.swept + SWEEP_MIN {
            let unfinished = store.unfinished()?;
            let ids: HashSet<&str> = unfinished.iter().map(|job| job.id.as_str()).collect();
            let ended: Vec<String> =
                self.jobs.keys().filter(|id| !ids.contains(id.as_str())).cloned().collect();
            ended.iter().for_each(|id| self.remove(id));
            self.swept = self.jobs.len();
        }
        Ok(())
    }

    fn insert(&mut self, id: &str, places: Vec<Place>) {
        for place in &places {
            for key in key_of(place) {
                self.by_folder.entry(key).or_default().push(id.to_owned());
            }
            for key in checkpoints_around(place) {
                self.by_checkpoints.entry(key).or_default().push(id.to_owned());
            }
        }
        self.jobs.insert(id.to_owned(), places);
    }

    fn remove(&mut self, id: &str) {
        for place in self.jobs.remove(id).into_iter().flatten() {
            key_of(&place).for_each(|key| forget(&mut self.by_folder, &key, id));
            checkpoints_around(&place).for_each(|key| forget(&mut self.by_checkpoints, &key, id));
        }
    }

    /// Ids of the jobs that write to this place.
    fn sharing(&self, place: &Place) -> Vec<String> {
        let around: Vec<Key> = match place {
            Place::Disk(it) => it.keys_around().map(|(key, _)| Key::Disk(key)).collect(),
            Place::Bucket(_) => key_of(place).collect(),
        };
        let around = around.iter().filter_map(|key| self.by_folder.get(key));
        let own: Vec<Key> = key_of(place).collect();
        let within = own.iter().filter_map(|key| self.by_checkpoints.get(key));
        let is_sharing = |id: &&String| {
            let theirs = self.jobs.get(*id).into_iter().flatten();
            theirs.into_iter().any(|their| is_shared(place, their))
        };
        around.chain(within).flatten().filter(is_sharing).cloned().collect()
    }
}

fn forget(ids: &mut HashMap<Key, Vec<String>>, key: &Key, id: &str) {
    let Some(known) = ids.get_mut(key) else { return };
    known.retain(|other| other != id);
    if known.is_empty() {
        ids.remove(key);
    }
}

fn key_of(place: &Place) -> impl Iterator<Item = Key> {
    let key = match place {
        Place::Disk(identity) => identity.key().cloned().map(Key::Disk),
        Place::Bucket(parts) => Some(Key::Bucket(parts.clone())),
    };
    key.into_iter()
}

/// The keys of the folders of checkpoints around a place.
fn checkpoints_around(place: &Place) -> impl Iterator<Item = Key> {
    let identity = match place {
        Place::Disk(identity) => Some(identity),
        Place::Bucket(_) => None,
    };
    let around = identity.into_iter().flat_map(Identity::keys_around);
    let is_checkpoint = |next: &std::ffi::OsStr| step_of_checkpoint(Path::new(next)).is_some();
    around.filter(move |(_, next)| next.is_some_and(is_checkpoint)).map(|(key, _)| Key::Disk(key))
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
    use crate::jobs::store::NewJob;

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

    fn new_job(id: &str, resolved: String) -> NewJob {
        let job: JobFile = serde_json::from_str(&resolved).unwrap();
        let output_dir = job.output_dir.display().to_string();
        NewJob { id: id.into(), output_dir, resolved, ..NewJob::default() }
    }

    /// Other jobs are found by keys of their folders, and forgotten when they have ended.
    #[test]
    fn a_shared_folder_is_found_among_many_jobs() {
        let scratch = tempfile::tempdir().unwrap();
        let store = Store::open_draft(&scratch.path().join("traind.db")).unwrap();
        let folders = FoldersInUse::default();
        let job = |output_dir: &str| -> JobFile {
            let text = format!(
                "{{name: a, model: {{name_or_path: ./a, task: masked-lm}}, \
                 data: {{train: a.csv}}, output_dir: {output_dir}}}"
            );
            JobFile::parse(&text, scratch.path()).unwrap().job
        };
        let resolved = |job: &JobFile| serde_json::to_string(job).unwrap();
        let take = |id: &str, output_dir: &str| {
            let job = job(output_dir);
            let reservation = folders.reserve(&store, &job, None)?;
            store.create(&new_job(id, resolved(&job))).unwrap();
            reservation.keep(id);
            Ok::<_, Error>(())
        };
        let holder = |taken: Result<(), Error>| match taken {
            Err(Error::FolderInUse { id, .. }) => id,
            other => panic!("{other:?}"),
        };
        // An earlier daemon stored it.
        store.create(&new_job("old", resolved(&job("out-old")))).unwrap();
        for number in 0..300 {
            take(&format!("j{number}"), &format!("out-{number}")).unwrap();
        }
        take("deep", "base/checkpoint-7/out").unwrap();
        let lines = folders.0.lock().unwrap().jobs.len();
        assert_eq!(lines, 302);
        assert_eq!(holder(take("x", "y/../out-old")), "old");
        assert_eq!(holder(take("x", "out-7/checkpoint-3/new")), "j7");
        assert_eq!(holder(take("x", "base")), "deep");
        for number in 0..300 {
            store.cancel(&format!("j{number}"), "").unwrap();
        }
        take("again", "out-7").unwrap();
        for number in 300..700 {
            take(&format!("j{number}"), &format!("out-{number}")).unwrap();
        }
        assert!(folders.0.lock().unwrap().jobs.len() < 500, "jobs that have ended are forgotten");
    }
}
