//! One file of a repository to the cache. What broke off goes on where it ended, and what is
//! complete is compared with what the hub said it is.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use reqwest::StatusCode;
use rustix::fs::statvfs;
use sha2::{Digest, Sha256};
use traind_cache::DownloadObserver;

use super::HubProblem;
use super::cache::{Snapshot, failed};
use super::client::{Client, FileInfo};
use super::repository::Repository;

/// Tries without a byte more, after which the hub is given up.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);
/// Digits of a SHA-256, which is the ETag of a large file.
const SHA256_DIGITS: usize = 64;
const CHUNK_BYTES: usize = 1 << 20;

/// What the files of a commit are fetched with, and into.
pub(super) struct Download<'a> {
    pub(super) client: &'a Client,
    pub(super) repository: &'a Repository,
    pub(super) commit: &'a str,
    pub(super) snapshot: &'a Snapshot,
    pub(super) observer: &'a dyn DownloadObserver,
}

impl Download<'_> {
    /// Fetches `file` unless it is there.
    pub(super) fn fetch(&self, file: &str) -> Result<(), HubProblem> {
        let link = self.snapshot.folder.join(file);
        if link.exists() {
            return Ok(());
        }
        let target = way_to_blobs(file)?;
        let found = self.client.file_info(self.repository, self.commit, file)?;
        let blob = self.snapshot.blobs.join(&found.etag);
        let part = blob.with_added_extension("incomplete");
        let mut content = File::options().create(true).append(true).read(true).open(&part);
        let content = content.as_mut().map_err(|error| problem("create", &part, error))?;
        // Others who want the same file wait here and then find it.
        let _ = content.lock();
        if !blob.exists() {
            check_room(&part, file, &found)?;
            self.receive(file, &found, content, &part)?;
            content.sync_all().map_err(failed("write", &part))?;
            check(&part, file, &found)?;
            fs::rename(&part, &blob).map_err(failed("create", &blob))?;
        } else {
            let _ = fs::remove_file(&part);
        }
        let folder = link.parent().unwrap_or(&link);
        fs::create_dir_all(folder).map_err(failed("create", folder))?;
        match symlink(target.join(&found.etag), &link) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                Err(problem("create", &link, &error))
            }
            _ => Ok(()),
        }
    }

    fn receive(
        &self,
        file: &str,
        found: &FileInfo,
        content: &mut File,
        part: &Path,
    ) -> Result<(), HubProblem> {
        let mut tries = 0;
        loop {
            let there = content.metadata().map_err(failed("look at", part))?.len();
            if there == found.bytes {
                return Ok(());
            }
            let from = if there > found.bytes { 0 } else { there };
            content.set_len(from).map_err(failed("write", part))?;
            let error = match self.attempt(file, found, from, content, part) {
                Ok(()) => HubProblem::Unreachable { message: format!("{file} broke off") },
                Err(error @ HubProblem::Unreachable { .. }) => error,
                Err(error) => return Err(error),
            };
            let now = content.metadata().map_err(failed("look at", part))?.len();
            tries = if now > from { 0 } else { tries + 1 };
            if tries == TRIES || self.observer.is_cancelled() {
                return Err(error);
            }
            if now < found.bytes {
                std::thread::sleep(PAUSE * 2u32.pow(tries));
            }
        }
    }

    /// Appends what comes until the body ends, whether it is all or not.
    fn attempt(
        &self,
        file: &str,
        found: &FileInfo,
        from: u64,
        content: &mut File,
        part: &Path,
    ) -> Result<(), HubProblem> {
        let mut answer = self.client.content(self.repository, self.commit, file, from)?;
        let mut there = from;
        if answer.status() != StatusCode::PARTIAL_CONTENT {
            content.set_len(0).map_err(failed("write", part))?;
            there = 0;
        }
        let name = format!("{}/{file}", self.repository);
        let mut chunk = vec![0; CHUNK_BYTES];
        while !self.observer.is_cancelled() {
            let read = answer.read(&mut chunk);
            let unreachable = |error: std::io::Error| HubProblem::Unreachable {
                message: format!("{file} broke off: {error}"),
            };
            match read.map_err(unreachable)? {
                0 => return Ok(()),
                count => content.write_all(&chunk[..count]).map_err(failed("write", part))?,
            }
            there = content.metadata().map_or(there, |metadata| metadata.len());
            self.observer.progressed(&name, there, found.bytes);
        }
        Ok(())
    }
}

/// From the folder of a snapshot's file to the blobs. A name that leads out of the snapshot is
/// none.
fn way_to_blobs(file: &str) -> Result<PathBuf, HubProblem> {
    let parts: Vec<Component<'_>> = Path::new(file).components().collect();
    if parts.is_empty() || !parts.iter().all(|part| matches!(part, Component::Normal(_))) {
        return Err(HubProblem::Corrupt { file: file.to_owned() });
    }
    let up = "../".repeat(parts.len() + 1);
    Ok(Path::new(&up).join("blobs"))
}

/// A file that is not what it was said to be goes, so that the next try begins anew.
fn check(part: &Path, file: &str, found: &FileInfo) -> Result<(), HubProblem> {
    if found.etag.len() != SHA256_DIGITS {
        return Ok(());
    }
    let mut content = File::open(part).map_err(failed("read", part))?;
    let mut hasher = Sha256::new();
    std::io::copy(&mut content, &mut hasher).map_err(failed("read", part))?;
    let digest: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if digest == found.etag {
        return Ok(());
    }
    let _ = fs::remove_file(part);
    Err(HubProblem::Corrupt { file: file.to_owned() })
}

fn check_room(part: &Path, file: &str, found: &FileInfo) -> Result<(), HubProblem> {
    let there = fs::metadata(part).map_or(0, |metadata| metadata.len());
    let space =
        statvfs(part).map_err(|error| problem("measure the disk of", part, &error.into()))?;
    let available = space.f_bavail.saturating_mul(space.f_frsize);
    if available >= found.bytes.saturating_sub(there) {
        return Ok(());
    }
    let (cache, file) = (part.to_owned(), file.to_owned());
    Err(HubProblem::DiskFull { cache, file, bytes: found.bytes, available })
}

fn problem(action: &'static str, path: &Path, error: &std::io::Error) -> HubProblem {
    HubProblem::Io { action, path: path.to_owned(), message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_the_blobs_and_nowhere_else() {
        let way = |file| way_to_blobs(file).map(|way| way.display().to_string());
        assert_eq!(way("config.json").unwrap(), "../../blobs");
        assert_eq!(way("data/en/train.csv").unwrap(), "../../../../blobs");
        for file in ["", "../x", "/etc/passwd", "data/../../x", "./x/.."] {
            assert!(way(file).is_err(), "{file}");
        }
    }
}
