//! Uploads the files of a folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use traind_bucket::{Bucket, Upload};
use traind_folders::NOTES;
use traind_proto::v1::event::Kind;
use traind_proto::v1::{SavedKind, Uploaded};

use super::patience::{Urgency, persist};
use super::{Remote, run_error};
use crate::error::RunResult;
use crate::output::{CHECKPOINT_PREFIX, MANIFEST, failed};
use crate::reporting::{Journal, StopReason};

/// A model cannot be loaded without it.
const CONFIG: &str = "config.json";

/// A folder on its way to a bucket.
pub(super) struct FolderUpload<'a> {
    pub bucket: &'a Bucket,
    field: &'static str,
    pub job_id: &'a str,
    journal: &'a Journal,
    urgency: &'a (dyn Fn() -> Urgency + Sync),
}

impl FolderUpload<'_> {
    /// Uploads the checkpoint of `step`. Its manifest is removed first, if it was there before, and
    /// written last: a checkpoint with a manifest is whole.
    pub(super) fn checkpoint(&self, folder: &Path, step: u64) -> RunResult<u64> {
        let name = format!("{CHECKPOINT_PREFIX}{step}");
        let manifest = format!("{name}/{MANIFEST}");
        self.record(|record| record.insert_checkpoint(step))?;
        self.remove(&manifest)?;
        let mut bytes = 0;
        for file in files(folder)? {
            if file != Path::new(MANIFEST) {
                bytes += self.file(&folder.join(&file), &format!("{name}/{}", file.display()))?;
            }
        }
        bytes += self.file(&folder.join(MANIFEST), &manifest)?;
        Ok(bytes)
    }

    /// Removes a checkpoint, its manifest first.
    pub(super) fn remove_checkpoint(&self, name: &str) -> RunResult<()> {
        self.remove(&format!("{name}/{MANIFEST}"))?;
        let listed = self.persist(|keep| self.bucket.list(name, keep))?;
        listed.iter().try_for_each(|object| self.remove(&object.name))
    }

    /// Uploads the output folder without its checkpoints.
    fn output(&self, folder: &Path) -> RunResult<u64> {
        let mut files = files(folder)?;
        let is_of_checkpoint =
            |file: &PathBuf| file.to_string_lossy().starts_with(CHECKPOINT_PREFIX);
        files.retain(|file| !is_of_checkpoint(file));
        files.sort_by_key(|file| file == Path::new(CONFIG));
        let top = files.iter().filter(|file| file.components().count() == 1);
        let top: Vec<String> = top.map(|file| file.display().to_string()).collect();
        self.record(|record| record.insert_files(top.iter().cloned()))?;
        let upload = |file: &PathBuf| self.file(&folder.join(file), &file.display().to_string());
        files.iter().map(upload).sum()
    }

    fn file(&self, path: &Path, name: &str) -> RunResult<u64> {
        let mut upload = Upload::new(path, name).map_err(failed("read", path))?;
        let sent = self.persist(|keep| upload.send(self.bucket, keep));
        if sent.is_err() {
            // A rule of the bucket for unfinished uploads removes what cannot be removed now.
            let _ = upload.abort(self.bucket, &|| (self.urgency)() != Urgency::Abandoned);
            return sent.map(|()| 0);
        }
        Ok(upload.bytes())
    }

    fn remove(&self, name: &str) -> RunResult<()> {
        self.persist(|keep| self.bucket.remove(name, keep))
    }

    pub(super) fn persist<T>(
        &self,
        mut call: impl FnMut(traind_bucket::Keep<'_>) -> traind_bucket::Result<T>,
    ) -> RunResult<T> {
        let keep = || (self.urgency)() != Urgency::Abandoned;
        persist(self.journal, &self.urgency, || call(&keep)).map_err(run_error(self.field))
    }
}

impl Remote {
    /// An upload of a folder to the location that `field` of the job file names.
    pub(super) fn upload_to<'a>(
        &'a self,
        bucket: &'a Bucket,
        field: &'static str,
        urgency: &'a (dyn Fn() -> Urgency + Sync),
    ) -> FolderUpload<'a> {
        FolderUpload { bucket, field, job_id: &self.job_id, journal: &self.journal, urgency }
    }

    /// Uploads the output folder, which is complete, and removes the staged files.
    pub(crate) fn upload_output(&self, folder: &Path, step: u64) -> RunResult<()> {
        let Some(location) = &self.output else { return Ok(()) };
        let start = Instant::now();
        let bucket = self.open("output_dir", location)?;
        let urgency = || match self.stop.reason() {
            None => Urgency::Last,
            Some(StopReason::Interrupted) => Urgency::Leaving,
            Some(StopReason::Cancelled) => Urgency::Abandoned,
        };
        let bytes = self.upload_to(&bucket, "output_dir", &urgency).output(folder)?;
        self.journal.record(Kind::Uploaded(Uploaded {
            url: location.to_string(),
            kind: SavedKind::Final.into(),
            step,
            bytes,
            seconds: start.elapsed().as_secs_f64(),
        }))?;
        self.remove_staged(folder)
    }

    /// Removes checkpoints from the bucket.
    pub(crate) fn remove_checkpoints(&self, steps: &[u64]) -> RunResult<()> {
        let Some(location) = self.checkpoints.as_ref().filter(|_| !steps.is_empty()) else {
            return Ok(());
        };
        let bucket = self.open("checkpoint_dir", location)?;
        let upload = self.upload_to(&bucket, "checkpoint_dir", &|| Urgency::Last);
        let name = |step: &u64| format!("{CHECKPOINT_PREFIX}{step}");
        steps.iter().try_for_each(|step| upload.remove_checkpoint(&name(step)))
    }

    /// Removes the staged output, or the checkpoints that a host fetched into its folder.
    pub(crate) fn remove_staged(&self, folder: &Path) -> RunResult<()> {
        match self.output.is_some() && folder.exists() {
            true => fs::remove_dir_all(folder).map_err(failed("remove", folder)),
            false => Ok(()),
        }
    }
}

/// The files below a folder by their paths relative to it, sorted, without traind's notes.
pub(super) fn files(folder: &Path) -> RunResult<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(inside) = folders.pop() {
        let path = folder.join(&inside);
        for entry in fs::read_dir(&path).map_err(failed("list", &path))? {
            let entry = entry.map_err(failed("list", &path))?;
            let name = inside.join(entry.file_name());
            match entry.path().is_dir() {
                true if name == Path::new(NOTES) => {}
                true => folders.push(name),
                false => found.push(name),
            }
        }
    }
    found.sort();
    Ok(found)
}
