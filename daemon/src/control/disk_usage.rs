//! Disk space that the folders of users' jobs take, measured from time to time where a group's is limited.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use traind_job_file::DataFiles;

use super::daemon::Daemon;
use crate::access::account::{Account, with_rights_of};
use crate::access::sharing::Sharing;
use crate::jobs::run_dir::RunDir;
use crate::jobs::store::{Store, StoreError};

/// The pause between two measurements.
pub(super) const PERIOD: Duration = Duration::from_secs(600);
/// Jobs whose folders are read from the store in one go.
const PAGE: usize = 1000;
/// Files of one user that are looked at: more are not counted.
const FILES_MAX: usize = 1_000_000;

/// The newest measurement, in bytes by user.
#[derive(Debug, Default)]
pub(crate) struct DiskUsage(Mutex<HashMap<String, u64>>);

impl DiskUsage {
    /// The bytes of the users of a group; 0 before the first measurement.
    pub(super) fn of_group(&self, sharing: &Sharing, name: &str) -> u64 {
        let used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_members = used.iter().filter(|(user, _)| sharing.is_member(user, name));
        let bytes = of_members.map(|(_, bytes)| *bytes);
        bytes.fold(0, u64::saturating_add)
    }

    fn replace(&self, used: HashMap<String, u64>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = used;
    }
}

/// Measures until the daemon closes.
pub(super) async fn run(daemon: Arc<Daemon>) {
    loop {
        let sharing = daemon.settings.access.now().sharing();
        let state_dir = daemon.settings.state_dir.clone();
        let measured = daemon.store.run(move |store| measure(store, &sharing, &state_dir)).await;
        match measured {
            Ok(used) => daemon.disk_usage.replace(used),
            Err(error) => tracing::warn!(%error, "measure the disk space of jobs"),
        }
        tokio::select! {
            () = daemon.closing.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}

/// Folders by the account that may read them.
type Folders = BTreeMap<Option<Account>, BTreeSet<PathBuf>>;

/// Measures the folders of the jobs of all users whose group has limited disk space.
fn measure(
    store: &Store,
    sharing: &Sharing,
    state_dir: &Path,
) -> Result<HashMap<String, u64>, StoreError> {
    let is_limited =
        |user: &str| sharing.group_of(user).is_some_and(|group| group.limits.disk_gib.is_some());
    let mut folders: HashMap<String, Folders> = HashMap::new();
    if sharing.groups().iter().all(|group| group.limits.disk_gib.is_none()) {
        return Ok(HashMap::new());
    }
    let mut after = 0;
    loop {
        let page = store.folders_of_users(after, PAGE)?;
        let Some(last) = page.last() else { break };
        after = last.number;
        for job in page.into_iter().filter(|job| is_limited(&job.owner)) {
            let run_dir = RunDir::new(state_dir, &job.id).path().to_owned();
            let of_owner = folders.entry(job.owner).or_default();
            let of_account = of_owner.entry(job.run_as).or_default();
            let local = |folder: &PathBuf| folder.is_absolute() && !DataFiles::is_url(folder);
            let named = [Some(job.output_dir), job.checkpoint_dir].into_iter().flatten();
            of_account.extend(named.map(PathBuf::from).chain([run_dir]).filter(local));
        }
    }
    Ok(folders.into_iter().map(|(user, folders)| (user, size_of_all(folders))).collect())
}

fn size_of_all(folders: Folders) -> u64 {
    let (mut bytes, mut seen) = (0u64, Seen::new(FILES_MAX));
    for (account, folders) in folders {
        // Folders that cannot be read with the user's rights do not count.
        let measured = with_rights_of(account, || {
            folders.iter().map(|folder| seen.measure(folder)).fold(0, u64::saturating_add)
        });
        bytes = bytes.saturating_add(measured.unwrap_or_default());
    }
    bytes
}

/// Files that were measured.
struct Seen {
    /// The files that were counted, by device and inode: a folder may be below another, and a file have two names.
    files: HashSet<(u64, u64)>,
    /// How many more are looked at.
    left: usize,
}

impl Seen {
    fn new(files_max: usize) -> Seen {
        Seen { files: HashSet::new(), left: files_max }
    }

    /// The space that a folder takes. Links are not followed.
    fn measure(&mut self, folder: &Path) -> u64 {
        let (mut bytes, mut waiting) = (0u64, vec![folder.to_owned()]);
        while let Some(left) = self.left.checked_sub(1)
            && let Some(path) = waiting.pop()
        {
            self.left = left;
            let Ok(found) = fs::symlink_metadata(&path) else { continue };
            if !self.files.insert((found.dev(), found.ino())) {
                continue;
            }
            bytes = bytes.saturating_add(found.blocks().saturating_mul(512));
            if found.is_dir() {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                let entries = entries.take(left.saturating_sub(waiting.len()));
                waiting.extend(entries.map(|entry| entry.path()));
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::store::NewJob;

    #[test]
    fn files_of_a_users_jobs_count_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        let output = folder.path().join("out");
        fs::create_dir_all(output.join("sub")).unwrap();
        fs::write(output.join("model"), vec![1; 300_000]).unwrap();
        fs::hard_link(output.join("model"), output.join("sub/again")).unwrap();
        std::os::unix::fs::symlink("/", output.join("root")).unwrap();
        for (number, (owner, output)) in
            [("ann", output.clone()), ("ann", output.join("sub")), ("bob", output)]
                .into_iter()
                .enumerate()
        {
            let (id, owner) = (format!("job-{number}"), owner.to_owned());
            let output_dir = output.display().to_string();
            let job = NewJob { id: id.clone(), owner, output_dir, ..NewJob::default() };
            store.create(&job).unwrap();
            store.cancel(&id, "").unwrap();
        }
        let sharing = Sharing::example("groups: {a: {members: [ann], limits: {disk_gib: 1}}}");
        let used = measure(&store, &sharing, folder.path()).unwrap();
        assert_eq!(used.len(), 1, "only users with a limit are measured");
        assert!((300_000..400_000).contains(&used["ann"]), "{used:?}");
        let usage = DiskUsage(Mutex::new(used));
        assert!(usage.of_group(&sharing, "a") >= 300_000);
        assert_eq!(usage.of_group(&sharing, "b"), 0);
        let unlimited = Sharing::example("groups: {a: {members: [ann]}}");
        assert!(measure(&store, &unlimited, folder.path()).unwrap().is_empty());
    }

    #[test]
    fn the_walk_through_folders_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..20 {
            fs::write(folder.path().join(number.to_string()), [1]).unwrap();
        }
        let measured = |files_max| {
            let mut seen = Seen::new(files_max);
            seen.measure(folder.path());
            (seen.files.len(), seen.left)
        };
        assert_eq!(measured(100), (21, 79));
        assert_eq!(measured(5), (5, 0));
        assert_eq!(measured(0), (0, 0));
    }
}
