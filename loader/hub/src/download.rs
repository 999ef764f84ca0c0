//! Downloads one file into the cache. An interrupted download continues at its last byte, and the
//! content is compared with the hub's checksum.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use reqwest::StatusCode;
use rustix::fs::statvfs;
use sha2::{Digest, Sha256};
use traind_cache::DownloadObserver;

use super::cache::Snapshot;
use super::client::{Client, FileInfo};
use super::error::io_problem;
use super::{Problem, Repository};

/// Attempts in a row that may receive nothing.
const ATTEMPTS_MAX: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);
/// The length of a SHA-256 in hexadecimal, the ETag of a large file.
const SHA256_DIGITS: usize = 64;
const CHUNK_BYTES: usize = 1 << 20;

/// Downloads files of a commit into its snapshot.
pub(crate) struct Download<'a> {
    pub(crate) client: &'a Client,
    pub(crate) repository: &'a Repository,
    pub(crate) commit: &'a str,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) observer: &'a dyn DownloadObserver,
}

impl Download<'_> {
    /// Downloads `file` unless the snapshot has it.
    pub(crate) fn fetch(&self, file: &str) -> Result<(), Problem> {
        let link = self.snapshot.folder.join(file);
        if link.exists() {
            return Ok(());
        }
        let target = path_to_blobs(file)?;
        let found = self.client.file_info(self.repository, self.commit, file)?;
        let blob = self.snapshot.blobs.join(&found.etag);
        let part = blob.with_added_extension("incomplete");
        let content = File::options().create(true).append(true).read(true).open(&part);
        let mut content = content.map_err(io_problem("create", &part))?;
        // Other runners that need the file wait here and then find it.
        let _ = content.lock();
        if !blob.exists() {
            check_space(&part, file, &found)?;
            self.receive(file, &found, &mut content, &part)?;
            content.sync_all().map_err(io_problem("write", &part))?;
            check(&part, file, &found)?;
            fs::rename(&part, &blob).map_err(io_problem("create", &blob))?;
        } else {
            let _ = fs::remove_file(&part);
        }
        let folder = link.parent().unwrap_or(&link);
        fs::create_dir_all(folder).map_err(io_problem("create", folder))?;
        match symlink(target.join(&found.etag), &link) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                Err(io_problem("create", &link)(error))
            }
            _ => Ok(()),
        }
    }

    /// Downloads the missing bytes, in as many attempts as make progress.
    fn receive(
        &self,
        file: &str,
        found: &FileInfo,
        content: &mut File,
        part: &Path,
    ) -> Result<(), Problem> {
        let mut attempts = 0;
        loop {
            let there = content.metadata().map_err(io_problem("inspect", part))?.len();
            if there == found.bytes {
                return Ok(());
            }
            let from = if there > found.bytes { 0 } else { there };
            content.set_len(from).map_err(io_problem("write", part))?;
            let error = match self.attempt(file, found, from, content, part) {
                Ok(()) => Problem::Unreachable {
                    message: format!("the download of {file} was cut short"),
                },
                Err(error @ Problem::Unreachable { .. }) => error,
                Err(error) => return Err(error),
            };
            let now = content.metadata().map_err(io_problem("inspect", part))?.len();
            attempts = if now > from { 0 } else { attempts + 1 };
            if attempts == ATTEMPTS_MAX || self.observer.is_cancelled() {
                return Err(error);
            }
            if now < found.bytes {
                std::thread::sleep(PAUSE * 2u32.pow(attempts));
            }
        }
    }

    /// Appends the body of one response, which may end early.
    fn attempt(
        &self,
        file: &str,
        found: &FileInfo,
        from: u64,
        content: &mut File,
        part: &Path,
    ) -> Result<(), Problem> {
        let mut response = self.client.content(self.repository, self.commit, file, from)?;
        let mut there = from;
        if response.status() != StatusCode::PARTIAL_CONTENT {
            content.set_len(0).map_err(io_problem("write", part))?;
            there = 0;
        }
        let name = format!("{}/{file}", self.repository);
        let mut chunk = vec![0; CHUNK_BYTES];
        while !self.observer.is_cancelled() {
            let read = response.read(&mut chunk);
            let unreachable = |error: std::io::Error| Problem::Unreachable {
                message: format!("the download of {file} was cut short: {error}"),
            };
            match read.map_err(unreachable)? {
                0 => return Ok(()),
                count => content.write_all(&chunk[..count]).map_err(io_problem("write", part))?,
            }
            there = content.metadata().map_or(there, |metadata| metadata.len());
            self.observer.progressed(&name, there, found.bytes);
        }
        Ok(())
    }
}

/// Returns the path from the folder of a snapshot's file to the blobs. Refuses names that lead out of
/// the snapshot.
fn path_to_blobs(file: &str) -> Result<PathBuf, Problem> {
    let parts: Vec<Component<'_>> = Path::new(file).components().collect();
    if parts.is_empty() || !parts.iter().all(|part| matches!(part, Component::Normal(_))) {
        return Err(Problem::Corrupt { file: file.to_owned() });
    }
    let up = "../".repeat(parts.len() + 1);
    Ok(Path::new(&up).join("blobs"))
}

/// Compares the content with its checksum; removes it where they differ, so that the next attempt
/// starts over.
fn check(part: &Path, file: &str, found: &FileInfo) -> Result<(), Problem> {
    if found.etag.len() != SHA256_DIGITS {
        return Ok(());
    }
    let mut content = File::open(part).map_err(io_problem("read", part))?;
    let mut hasher = Sha256::new();
    std::io::copy(&mut content, &mut hasher).map_err(io_problem("read", part))?;
    let digest: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if digest == found.etag {
        return Ok(());
    }
    let _ = fs::remove_file(part);
    Err(Problem::Corrupt { file: file.to_owned() })
}

fn check_space(part: &Path, file: &str, found: &FileInfo) -> Result<(), Problem> {
    let there = fs::metadata(part).map_or(0, |metadata| metadata.len());
    let space =
        statvfs(part).map_err(|error| io_problem("measure the disk of", part)(error.into()))?;
    let available = space.f_bavail.saturating_mul(space.f_frsize);
    if available >= found.bytes.saturating_sub(there) {
        return Ok(());
    }
    let (cache, file) = (part.to_owned(), file.to_owned());
    Err(Problem::DiskFull { cache, file, bytes: found.bytes, available })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_the_blobs_and_nowhere_else() {
        let path = |file| path_to_blobs(file).map(|path| path.display().to_string());
        assert_eq!(path("config.json").unwrap(), "../../blobs");
        assert_eq!(path("data/en/train.csv").unwrap(), "../../../../blobs");
        for file in ["", "../x", "/etc/passwd", "data/../../x", "./x/.."] {
            assert!(path(file).is_err(), "{file}");
        }
    }
}
