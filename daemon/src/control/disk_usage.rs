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
/// Files of one user that are measured: more are not counted.
const FILES_MAX: usize = 1_000_000;

/// The newest measurement, in bytes by user.
#[derive(Debug, Default)]
pub(crate) struct DiskUsage(Mutex<HashMap<String, u64>>);

impl DiskUsage {
    /// The bytes of the users of a group; 0 before the first measurement.
    pub(super) fn of_group(&self, sharing: &Sharing, name: &str) -> u64 {
        let used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_of_group = |user: &str| sharing.group_of(user).is_some_and(|it| it.name == name);
        let bytes = used.iter().filter(|(user, _)| is_of_group(user)).map(|(_, bytes)| *bytes);
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
type Folders = BTreeMap<Option<(u32, u32)>, (Option<Account>, BTreeSet<PathBuf>)>;

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
            let account = job.run_as.map(|account| (account.uid, account.gid));
            let of_owner = folders.entry(job.owner).or_default();
            let (_, of_account) = of_owner.entry(account).or_insert((job.run_as, BTreeSet::new()));
            let local = |folder: &PathBuf| folder.is_absolute() && !DataFiles::is_url(folder);
            let named = [Some(job.output_dir), job.checkpoint_dir].into_iter().flatten();
            of_account.extend(named.map(PathBuf::from).chain([run_dir]).filter(local));
        }
    }
    Ok(folders.into_iter().map(|(user, folders)| (user, size_of_all(folders))).collect())
}

fn size_of_all(folders: Folders) -> u64 {
    let (mut bytes, mut seen) = (0u64, Seen::default());
    for (account, folders) in folders.into_values() {
        // Folders that cannot be read with the user's rights do not count.
        let measured = with_rights_of(account, || {
            folders.iter().map(|folder| seen.measure(folder)).fold(0, u64::saturating_add)
        });
        bytes = bytes.saturating_add(measured.unwrap_or_default());
    }
    bytes
}

/// Files that were measured, by device and inode: a folder may be below another, and a file have two
/// names.
#[derive(Default)]
struct Seen(HashSet<(u64, u64)>);

impl Seen {
    /// The space that a folder takes. Links are not followed.
    fn measure(&mut self, folder: &Path) -> u64 {
        let mut bytes = 0u64;
        let mut left = vec![folder.to_owned()];
        while let Some(path) = left.pop() {
            let Ok(found) = fs::symlink_metadata(&path) else { continue };
            if self.0.len() >= FILES_MAX || !self.0.insert((found.dev(), found.ino())) {
                continue;
            }
            bytes = bytes.saturating_add(found.blocks().saturating_mul(512));
            if found.is_dir() {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                left.extend(entries.map(|entry| entry.path()));
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
}
