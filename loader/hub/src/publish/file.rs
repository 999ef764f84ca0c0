//! Files of a commit. They stay open, so that what is removed meanwhile can still be sent.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::super::Problem;
use super::super::error::io_problem;

/// The bytes by which the hub recognizes a kind of file.
const SAMPLE_BYTES: u64 = 512;
const CHUNK_BYTES: usize = 1 << 20;

/// A file with its name in the repository.
#[derive(Debug)]
pub struct CommitFile {
    pub(super) name: String,
    pub(super) bytes: u64,
    path: PathBuf,
    file: File,
}

impl CommitFile {
    /// Opens the file at `path`, which is `name` in the repository.
    pub fn open(path: &Path, name: &str) -> io::Result<Self> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { name: name.to_owned(), bytes, path: path.to_owned(), file })
    }

    pub(super) fn sample(&self) -> Result<Vec<u8>, Problem> {
        self.read(0, self.bytes.min(SAMPLE_BYTES))
    }

    pub(super) fn content(&self) -> Result<Vec<u8>, Problem> {
        self.read(0, self.bytes)
    }

    /// A handle that reads the file at any place.
    pub(super) fn handle(&self) -> Result<File, Problem> {
        self.file.try_clone().map_err(io_problem("open", &self.path))
    }

    /// The SHA-256, by which the hub's storage knows a file.
    pub(super) fn sha256(&self) -> Result<String, Problem> {
        self.digest(Sha256::new())
    }

    /// The SHA-1 by which git knows the file.
    pub(super) fn git_sha1(&self) -> Result<String, Problem> {
        self.digest(Sha1::new().chain_update(format!("blob {}\0", self.bytes)))
    }

    fn digest(&self, mut digest: impl Digest) -> Result<String, Problem> {
        let mut at = 0;
        while at < self.bytes {
            let chunk = self.read(at, (self.bytes - at).min(CHUNK_BYTES as u64))?;
            digest.update(&chunk);
            at += chunk.len() as u64;
        }
        Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn read(&self, at: u64, bytes: u64) -> Result<Vec<u8>, Problem> {
        let mut content = vec![0; bytes as usize];
        self.file.read_exact_at(&mut content, at).map_err(io_problem("read", &self.path))?;
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digests are those of `git hash-object` and `sha256sum`.
    #[test]
    fn a_removed_file_has_its_content_and_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        std::fs::write(&path, "hello\n").unwrap();
        let file = CommitFile::open(&path, "b/a.txt").unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.content().unwrap(), b"hello\n");
        assert_eq!(file.git_sha1().unwrap(), "ce013625030ba8dba906f756967f9e9ca394464a");
        let sha256 = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        assert_eq!(file.sha256().unwrap(), sha256);
    }
}
