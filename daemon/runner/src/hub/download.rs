//! One file of a model to the cache. What broke off goes on where it ended, and what is complete
//! is compared with what the hub said it is.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use reqwest::StatusCode;
use rustix::fs::statvfs;
use sha2::{Digest, Sha256};

use super::HubProblem;
use super::cache::{Snapshot, failed};
use super::client::{Client, FileInfo, Info};

/// Tries without a byte more, after which the hub is given up.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);
/// Digits of a SHA-256, which is the ETag of a large file.
const SHA256_DIGITS: usize = 64;
const CHUNK_BYTES: usize = 1 << 20;

/// Fetches `file` unless it is there.
pub(super) fn fetch(
    client: &Client,
    id: &str,
    info: &Info,
    file: &str,
    snapshot: &Snapshot,
) -> Result<(), HubProblem> {
    let link = snapshot.folder.join(file);
    if link.exists() {
        return Ok(());
    }
    let found = client.file_info(id, &info.commit, file)?;
    let blob = snapshot.blobs.join(&found.etag);
    let part = blob.with_added_extension("incomplete");
    let mut content = File::options().create(true).append(true).read(true).open(&part);
    let content = content.as_mut().map_err(|error| problem("create", &part, error))?;
    // Others who want the same file wait here and then find it.
    let _ = content.lock();
    if !blob.exists() {
        check_room(&part, file, &found)?;
        receive(client, id, &info.commit, file, &found, content, &part)?;
        content.sync_all().map_err(failed("write", &part))?;
        check(&part, file, &found)?;
        fs::rename(&part, &blob).map_err(failed("create", &blob))?;
    } else {
        let _ = fs::remove_file(&part);
    }
    let target = Path::new("../../blobs").join(&found.etag);
    match symlink(target, &link) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(problem("create", &link, &error))
        }
        _ => Ok(()),
    }
}

fn receive(
    client: &Client,
    id: &str,
    commit: &str,
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
        let error = match attempt(client, id, commit, file, from, content, part) {
            Ok(()) => HubProblem::Unreachable { message: format!("{file} broke off") },
            Err(error @ HubProblem::Unreachable { .. }) => error,
            Err(error) => return Err(error),
        };
        let now = content.metadata().map_err(failed("look at", part))?.len();
        tries = if now > from { 0 } else { tries + 1 };
        if tries == TRIES {
            return Err(error);
        }
        if now < found.bytes {
            std::thread::sleep(PAUSE * 2u32.pow(tries));
        }
    }
}

/// Appends what comes until the body ends, whether it is all or not.
fn attempt(
    client: &Client,
    id: &str,
    commit: &str,
    file: &str,
    from: u64,
    content: &mut File,
    part: &Path,
) -> Result<(), HubProblem> {
    let mut answer = client.content(id, commit, file, from)?;
    if answer.status() != StatusCode::PARTIAL_CONTENT {
        content.set_len(0).map_err(failed("write", part))?;
    }
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = answer.read(&mut chunk);
        let unreachable = |error: std::io::Error| HubProblem::Unreachable {
            message: format!("{file} broke off: {error}"),
        };
        match read.map_err(unreachable)? {
            0 => return Ok(()),
            count => content.write_all(&chunk[..count]).map_err(failed("write", part))?,
        }
    }
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
