//! Downloads one file into the cache. An interrupted download continues at its last byte, and the
//! content is compared with the hub's checksum.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use rustix::fs::statvfs;
use sha2::{Digest, Sha256};
use traind_cache::DownloadObserver;

use super::cache::Snapshot;
use super::client::{Client, FileInfo};
use super::error::io_problem;
use super::{Problem, Repository};

/// Attempts in a row that may receive nothing, or too little.
const ATTEMPTS_MAX: u32 = 5;
/// The length of a SHA-256 in hexadecimal, the ETag of a large file.
const SHA256_DIGITS: usize = 64;
const CHUNK_BYTES: usize = 1 << 20;
/// A slower server counts as one that does not answer: it would hold a run for days.
const PATIENCE: Patience = Patience {
    bytes: 64 << 10,
    period: Duration::from_secs(60),
    pause: Duration::from_millis(200),
};

/// Downloads files of a commit into its snapshot.
pub(crate) struct Download<'a> {
    pub(crate) client: &'a Client,
    pub(crate) repository: &'a Repository,
    pub(crate) commit: &'a str,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) observer: &'a dyn DownloadObserver,
    pub(crate) patience: Patience,
}

/// How long a server is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// The fewest bytes that are to arrive in a period.
    pub(crate) bytes: u64,
    pub(crate) period: Duration,
    /// The pause after an attempt that received too little, which doubles with each.
    pub(crate) pause: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        PATIENCE
    }
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
            let has_progress = now.saturating_sub(from) >= self.patience.bytes;
            attempts = if has_progress { 0 } else { attempts + 1 };
            if attempts == ATTEMPTS_MAX || self.observer.is_cancelled() {
                return Err(error);
            }
            if now < found.bytes {
                std::thread::sleep(self.patience.pause * 2u32.pow(attempts));
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
        let (mut since, mut arrived) = (Instant::now(), 0);
        while !self.observer.is_cancelled() {
            let read = response.read(&mut chunk);
            let unreachable = |error: std::io::Error| Problem::Unreachable {
                message: format!("the download of {file} was cut short: {error}"),
            };
            match read.map_err(unreachable)? {
                0 => return Ok(()),
                // The server does not keep to the size that it gave, and may never end.
                count if there + count as u64 > found.bytes => {
                    content.set_len(0).map_err(io_problem("write", part))?;
                    return Err(Problem::Corrupt { file: file.to_owned() });
                }
                count => {
                    content.write_all(&chunk[..count]).map_err(io_problem("write", part))?;
                    arrived += count as u64;
                }
            }
            if arrived >= self.patience.bytes {
                (since, arrived) = (Instant::now(), 0);
            } else if since.elapsed() > self.patience.period {
                let Patience { bytes, period, .. } = self.patience;
                let message = format!(
                    "the download of {file} is too slow: fewer than {bytes} bytes in {} s",
                    period.as_secs()
                );
                return Err(Problem::Unreachable { message });
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
    use std::io::{BufRead, BufReader};
    use std::net::{TcpListener, TcpStream};

    use traind_cache::EntryLocks;

    use super::*;
    use crate::cache::Cache;

    #[derive(Debug)]
    struct Patient;

    impl DownloadObserver for Patient {
        fn progressed(&self, _: &str, _: u64, _: u64) {}

        fn is_cancelled(&self) -> bool {
            false
        }
    }

    /// Answers every request with `head`, and those for content with what `body` writes.
    fn serve(head: &'static str, body: fn(&mut TcpStream)) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = String::new();
                let mut lines = BufReader::new(stream.try_clone().unwrap());
                while !request.ends_with("\r\n\r\n") && lines.read_line(&mut request).unwrap() > 0 {
                }
                let _ = write!(stream, "HTTP/1.1 {head}\r\nConnection: close\r\n\r\n");
                if request.starts_with("GET") {
                    body(&mut stream);
                }
            }
        });
        format!("http://{address}")
    }

    /// Downloads a file from a hostile server. Returns the error and how many bytes are left behind.
    fn download(head: &'static str, body: fn(&mut TcpStream)) -> (String, u64) {
        // A pause of the machine is no fault of the server.
        download_within(head, body, Duration::from_secs(120))
    }

    /// Downloads as [`download`] a file of which some bytes must arrive in each period.
    fn download_within(
        head: &'static str,
        body: fn(&mut TcpStream),
        period: Duration,
    ) -> (String, u64) {
        let folder = tempfile::tempdir().unwrap();
        let client = Client::at(&serve(head, body), Duration::from_secs(120)).unwrap();
        let repository = Repository::model("org/model");
        let cache = Cache::all(Some(folder.path())).remove(0);
        let locks = EntryLocks::default();
        let snapshot = cache.begin(&repository, "c0ffee", &locks).unwrap();
        let patience = Patience { bytes: 64, period, pause: Duration::from_millis(1) };
        let (repository, snapshot) = (&repository, &snapshot);
        let (client, commit, observer) = (&client, "c0ffee", &Patient);
        let download = Download { client, repository, commit, snapshot, observer, patience };
        let error = download.fetch("model.safetensors").unwrap_err().to_string();
        let left = fs::read_dir(&snapshot.blobs).unwrap();
        (error, left.map(|entry| entry.unwrap().metadata().unwrap().len()).sum())
    }

    #[test]
    fn an_endless_body_ends_at_the_size_that_the_server_gave() {
        let endless: fn(&mut TcpStream) = |stream| while stream.write_all(&[0; 4096]).is_ok() {};
        let (error, left) = download("200 OK\r\nETag: \"abc\"\r\nX-Linked-Size: 10000", endless);
        assert!(error.contains("model.safetensors"), "{error}");
        assert_eq!(left, 0);
    }

    #[test]
    fn a_server_that_sends_a_byte_at_a_time_is_given_up() {
        let drips: fn(&mut TcpStream) = |stream| {
            while stream.write_all(&[0]).is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        let head = "206 Partial Content\r\nETag: \"abc\"\r\nX-Linked-Size: 1000000";
        let (error, left) = download_within(head, drips, Duration::from_millis(50));
        assert!(error.contains("too slow: fewer than 64 bytes"), "{error}");
        assert!(left < 1000, "{left}");
    }

    #[test]
    fn redirects_to_files_and_lies_about_sizes_are_refused() {
        let nothing: fn(&mut TcpStream) = |_| {};
        let head = "302 Found\r\nLocation: file:///etc/passwd\r\nETag: \"abc\"\r\nX-Linked-Size: 5";
        let (error, left) = download(head, nothing);
        assert!(error.ends_with("with 302"), "{error}");
        assert_eq!(left, 0);
        let size = "200 OK\r\nETag: \"abc\"\r\nX-Linked-Size: 18446744073709551615";
        let (error, _) = download(size, nothing);
        assert!(error.contains("18446744073709551615"), "{error}");
        let (error, _) = download("200 OK\r\nETag: \"../abc\"\r\nX-Linked-Size: 3", nothing);
        assert!(error.contains("model.safetensors"), "{error}");
    }

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
