//! One commit: the files to add, and a folder whose other files it removes.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::client::Client;
use super::super::{Problem, Repository};
use super::batch::{Batch, FileUpload};
use super::file::CommitFile;
use super::requests::repeat;

/// The most files of one request.
const FILES_MAX: usize = 256;

/// Files to commit.
#[derive(Debug)]
pub struct Commit {
    message: String,
    files: Vec<CommitFile>,
    /// A folder that has no other files than those of the commit.
    folder: Option<String>,
    abandoned: Arc<AtomicBool>,
    progress: Mutex<Progress>,
}

/// The state that an attempt leaves to the next.
#[derive(Debug, Default)]
struct Progress {
    /// The hashes of files by their names.
    sha256: HashMap<String, String>,
    /// Uploads that have begun, by the SHA-256 of their files.
    uploads: HashMap<String, FileUpload>,
}

/// The hub's answer about some files.
#[derive(Debug, Deserialize)]
struct Preupload {
    files: Vec<Mode>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mode {
    path: String,
    upload_mode: UploadMode,
    #[serde(default)]
    should_ignore: bool,
    /// The hash of the file of that name in the branch: SHA-256 of a large file, else git's SHA-1.
    oid: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum UploadMode {
    Lfs,
    Regular,
}

impl Commit {
    pub fn new(message: String, files: Vec<CommitFile>) -> Self {
        let (abandoned, progress) = (Arc::default(), Mutex::default());
        Self { message, files, folder: None, abandoned, progress }
    }

    /// Removes the files of a folder in the repository that are not among those of the commit.
    pub fn replacing(mut self, folder: &str) -> Self {
        self.folder = Some(format!("{folder}/"));
        self
    }

    /// Size of its files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Ends requests that are under way.
    pub(super) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    pub(super) fn send(
        &self,
        client: &Client,
        repository: &Repository,
        branch: &str,
    ) -> Result<Option<String>, Problem> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = self.changed_files(client, repository, branch, &mut progress)?;
        let removed = self.superseded_files(client, repository, branch)?;
        if changed.is_empty() && removed.is_empty() {
            return Ok(None);
        }
        let large = changed.iter().filter(|(_, mode)| *mode == UploadMode::Lfs);
        let large: Vec<&CommitFile> = large.map(|(file, _)| *file).collect();
        for files in large.chunks(FILES_MAX) {
            self.upload(client, repository, branch, files, &mut progress)?;
        }
        let lines = self.lines(&changed, &removed, &progress)?;
        repeat(|| client.commit(repository, branch, lines.clone())).map(Some)
    }

    /// The files that the branch has not, each with the way in which the hub wants it.
    fn changed_files(
        &self,
        client: &Client,
        repository: &Repository,
        branch: &str,
        progress: &mut Progress,
    ) -> Result<Vec<(&CommitFile, UploadMode)>, Problem> {
        let mut changed = Vec::new();
        for files in self.files.chunks(FILES_MAX) {
            let described = files.iter().map(description).collect::<Result<Vec<_>, _>>()?;
            let request = json!({ "files": described });
            let answer: Preupload = client.preupload(repository, branch, &request)?;
            let mut modes: BTreeMap<String, Mode> =
                answer.files.into_iter().map(|mode| (mode.path.clone(), mode)).collect();
            for file in files {
                let unknown =
                    || Problem::Corrupt { file: "the list of files to upload".to_owned() };
                let Mode { upload_mode, should_ignore, oid, .. } =
                    modes.remove(&file.name).ok_or_else(unknown)?;
                // The storage takes no empty files.
                let mode = if file.bytes == 0 { UploadMode::Regular } else { upload_mode };
                let own = match mode {
                    UploadMode::Lfs => progress.sha256(file)?,
                    UploadMode::Regular => file.git_sha1()?,
                };
                if !should_ignore && oid.is_none_or(|oid| oid != own) {
                    changed.push((file, mode));
                }
            }
        }
        Ok(changed)
    }

    fn superseded_files(
        &self,
        client: &Client,
        repository: &Repository,
        branch: &str,
    ) -> Result<Vec<String>, Problem> {
        let Some(folder) = &self.folder else { return Ok(Vec::new()) };
        let mut there = client.revision(repository, branch)?.files;
        let is_new = |name: &String| self.files.iter().any(|file| file.name == *name);
        there.retain(|name| name.starts_with(folder) && !is_new(name));
        Ok(there)
    }

    fn upload(
        &self,
        client: &Client,
        repository: &Repository,
        branch: &str,
        files: &[&CommitFile],
        progress: &mut Progress,
    ) -> Result<(), Problem> {
        let mut objects = Vec::new();
        for file in files {
            let oid = progress.sha256(file)?;
            if !progress.uploads.contains_key(&oid) {
                objects.push(json!({"oid": oid, "size": file.bytes}));
            }
        }
        if !objects.is_empty() {
            let batch: Batch = client.lfs_batch(
                repository,
                &json!({
                    "operation": "upload",
                    "transfers": ["basic", "multipart"],
                    "objects": objects,
                    "hash_algo": "sha256",
                    "ref": {"name": branch},
                }),
            )?;
            progress.begin(batch, files)?;
        }
        files.iter().try_for_each(|file| self.upload_file(client, file, progress))
    }

    fn upload_file(
        &self,
        client: &Client,
        file: &CommitFile,
        progress: &mut Progress,
    ) -> Result<(), Problem> {
        let oid = progress.sha256(file)?;
        let Some(upload) = progress.uploads.get_mut(&oid) else {
            return Err(Problem::Corrupt { file: "the list of large files to upload".to_owned() });
        };
        let sent = upload.send(client, file, &self.abandoned);
        if matches!(sent, Err(Problem::NotStored { .. })) {
            // Its addresses may have expired: ask for others.
            progress.uploads.remove(&oid);
        }
        sent.map_err(|problem| problem.at_file(&file.name))
    }

    /// The commit as lines of JSON.
    fn lines(
        &self,
        changed: &[(&CommitFile, UploadMode)],
        removed: &[String],
        progress: &Progress,
    ) -> Result<Vec<u8>, Problem> {
        let header = json!({"summary": self.message, "description": ""});
        let mut lines = line("header", &header);
        for (file, mode) in changed {
            lines += &match mode {
                UploadMode::Lfs => line(
                    "lfsFile",
                    &json!({
                        "path": file.name,
                        "algo": "sha256",
                        "oid": progress.sha256.get(&file.name),
                        "size": file.bytes,
                    }),
                ),
                UploadMode::Regular => {
                    let content = STANDARD.encode(file.content()?);
                    let value = json!({
                        "path": file.name, "content": content, "encoding": "base64"
                    });
                    line("file", &value)
                }
            };
        }
        for name in removed {
            lines += &line("deletedFile", &json!({"path": name}));
        }
        Ok(lines.into_bytes())
    }
}

impl Progress {
    fn sha256(&mut self, file: &CommitFile) -> Result<String, Problem> {
        if let Some(known) = self.sha256.get(&file.name) {
            return Ok(known.clone());
        }
        let digest = file.sha256()?;
        self.sha256.insert(file.name.clone(), digest.clone());
        Ok(digest)
    }

    /// Begins the uploads that the storage describes.
    fn begin(&mut self, batch: Batch, files: &[&CommitFile]) -> Result<(), Problem> {
        for object in batch.objects {
            let oid = object.oid.clone();
            let is_known = |file: &&&CommitFile| self.sha256.get(&file.name) == Some(&oid);
            let Some(file) = files.iter().find(is_known) else { continue };
            let upload = FileUpload::new(object, file);
            self.uploads.insert(oid, upload.map_err(|problem| problem.at_file(&file.name))?);
        }
        Ok(())
    }
}

fn description(file: &CommitFile) -> Result<Value, Problem> {
    let sample = STANDARD.encode(file.sample()?);
    Ok(json!({"path": file.name, "sample": sample, "size": file.bytes}))
}

fn line(key: &str, value: &Value) -> String {
    format!("{}\n", json!({"key": key, "value": value}))
}
