//! The two folders of one job: the run folder, which the daemon shares with the runner, and the
//! daemon's own records.
//!
//! The run folder may belong to the submitting user, who can put anything there: the daemon opens
//! only regular files of that user and follows no links, also when it writes. Files that the
//! daemon trusts later are among the records, which no runner can write to.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, chownat, openat};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use traind_job_file::PREPARATION_FOLDER;
use traind_proto::event_log::{EventLogError, EventLogReader};
use traind_proto::program_folder::PROGRAM_FOLDER;
use traind_proto::run_status::{self, RUN_STATUS_FILE, STOP_FILE};
use traind_proto::sample_ledger::SAMPLE_LEDGER_FILE;
use traind_proto::v1::RunStatus;

use crate::access::account::Account;

/// The age at which a status of the hosts is out of date. Clients of a file server may see changes late.
const STATUS_AGE_MAX: Duration = Duration::from_secs(60);

/// Paths within `<state_dir>/jobs/<job_id>` and `<state_dir>/records/<job_id>`.
#[derive(Clone, Debug)]
pub(crate) struct RunDir {
    path: PathBuf,
    records: PathBuf,
}

impl RunDir {
    pub(crate) fn new(state_dir: &Path, job_id: &str) -> RunDir {
        RunDir {
            path: state_dir.join("jobs").join(job_id),
            records: state_dir.join("records").join(job_id),
        }
    }

    /// The run folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The run folder, or the link to it, and the folder of the records, which is removed first: without the
    /// records nothing is missing from the store.
    pub(crate) fn folders(&self) -> [&Path; 2] {
        [&self.records, &self.path]
    }

    /// The runner's event log.
    pub(crate) fn events_log(&self) -> PathBuf {
        self.path.join("events.log")
    }

    /// The ledger of the rows that each step trained on.
    pub(crate) fn samples(&self) -> PathBuf {
        self.path.join(SAMPLE_LEDGER_FILE)
    }

    /// The folder of the job's programs.
    pub(crate) fn programs(&self) -> PathBuf {
        self.path.join(PROGRAM_FOLDER)
    }

    /// The output of the runner and its plugin.
    pub(crate) fn runner_log(&self) -> PathBuf {
        self.path.join("runner.log")
    }

    /// The socket on which the runner serves `traind.v1.Runner`.
    pub(crate) fn socket(&self) -> PathBuf {
        self.path.join("runner.sock")
    }

    /// The folder of a preparation, which the process makes and removes.
    pub(crate) fn preparation(&self) -> PathBuf {
        self.path.join(PREPARATION_FOLDER)
    }

    /// The record of the accepted job.
    pub(crate) fn record(&self) -> PathBuf {
        self.records.join("job.json")
    }

    /// The newest attempt and its cores.
    pub(crate) fn placement(&self) -> PathBuf {
        self.records.join("placement.json")
    }

    /// Exists if the job was cancelled.
    pub(crate) fn cancelled(&self) -> PathBuf {
        self.records.join("cancelled")
    }

    /// Names the control group of the job's processes.
    pub(crate) fn cgroup(&self) -> PathBuf {
        self.records.join("cgroup")
    }

    /// Identifies the process of an attempt: see `supervisor::claim`.
    pub(crate) fn claim(&self, attempt: u32) -> PathBuf {
        self.records.join(format!("runner-{attempt}.json"))
    }

    /// Attempts with a claim, in ascending order.
    pub(crate) fn claimed_attempts(&self) -> Vec<u32> {
        let entries = fs::read_dir(&self.records).into_iter().flatten().flatten();
        let mut attempts: Vec<u32> = entries
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                name.strip_prefix("runner-")?.strip_suffix(".json")?.parse().ok()
            })
            .collect();
        attempts.sort_unstable();
        attempts
    }

    /// Creates the folders with mode 0700. The run folder is given to `account`, if any.
    pub(crate) fn create(&self, account: Option<Account>) -> io::Result<()> {
        for folder in [&self.path, &self.records] {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        match account {
            Some(Account { uid, gid }) => {
                let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                Ok(chownat(CWD, &self.path, Some(uid), Some(gid), flags)?)
            }
            None => Ok(()),
        }
    }

    /// Creates the records, and a link to the folder of a run that was started without the daemon. The link belongs
    /// to `owner`, whose files alone are opened through it.
    pub(crate) fn link(&self, target: &Path, owner: u32) -> io::Result<()> {
        if let Some(jobs) = self.path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(jobs)?;
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.records)?;
        std::os::unix::fs::symlink(target, &self.path)?;
        let changed = std::os::unix::fs::lchown(&self.path, Some(owner), None);
        changed.inspect_err(|_| self.unlink())
    }

    /// Removes the link and the records of a run that was not adopted.
    pub(crate) fn unlink(&self) {
        // Nothing refers to what stays behind.
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_dir_all(&self.records);
    }

    /// The folder of a run that was started without the daemon.
    pub(crate) fn linked(&self) -> Option<PathBuf> {
        fs::read_link(&self.path).ok()
    }

    /// Asks a run that was started without the daemon to stop.
    pub(crate) fn request_stop(&self, request: &str) -> io::Result<()> {
        let folder = openat(CWD, &self.path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        if File::from(folder.try_clone()?).metadata()?.uid() != self.owner()? {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                "it is not a folder of the job's user",
            ));
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        match openat(&folder, STOP_FILE, flags, mode) {
            Ok(file) => File::from(file).write_all(request.as_bytes()),
            // It was asked before.
            Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The user whose job it is: the owner of the run folder, or of the link to it. Only the daemon creates either.
    fn owner(&self) -> io::Result<u32> {
        Ok(fs::symlink_metadata(&self.path)?.uid())
    }

    /// Opens or creates the file for the runner's standard output and error.
    pub(crate) fn open_runner_log(&self) -> io::Result<File> {
        let path = self.runner_log();
        match self.open_own(&path, OFlags::WRONLY | OFlags::APPEND) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            opened => return opened,
        }
        let file = OpenOptions::new().create_new(true).append(true).mode(0o600).open(&path)?;
        let owner = fs::metadata(&self.path)?;
        fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
        Ok(file)
    }

    /// Opens a file of the run folder for reading.
    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        self.open_own(path, OFlags::RDONLY)
    }

    /// The names in a folder of the run folder, `most` at most; none if it does not exist.
    pub(crate) fn names(&self, folder: &Path, most: usize) -> io::Result<Vec<String>> {
        let opened = match self.open_owned(folder, OFlags::RDONLY | OFlags::DIRECTORY) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened?,
        };
        let mut names = Vec::new();
        for entry in Dir::read_from(opened)?.take(most) {
            let entry = entry?;
            names.extend(entry.file_name().to_str().map(str::to_owned));
        }
        names.retain(|name| name != "." && name != "..");
        Ok(names)
    }

    /// Opens the runner's event log for reading.
    pub(crate) fn open_events_log(&self) -> Result<EventLogReader, EventLogError> {
        self.open_log(self.events_log())
    }

    /// Opens the event log of another host than the first one for reading.
    pub(crate) fn open_host_events_log(&self, rank: u32) -> Result<EventLogReader, EventLogError> {
        self.open_log(self.path.join("hosts").join(rank.to_string()).join("events.log"))
    }

    /// Reads the newest status of the run's hosts.
    pub(crate) fn last_status(&self) -> Option<RunStatus> {
        run_status::read(self.open(&self.path.join(RUN_STATUS_FILE)).ok()?).ok()
    }

    /// Reads the status of the run's hosts; `None` if the first host has not written one recently, since
    /// its runner has ended or is asked by its socket.
    pub(crate) fn status(&self) -> Option<RunStatus> {
        let file = self.open(&self.path.join(RUN_STATUS_FILE)).ok()?;
        let age = SystemTime::now().duration_since(file.metadata().ok()?.modified().ok()?);
        // The clock of a file server may be ahead.
        let is_old = age.is_ok_and(|age| age > STATUS_AGE_MAX);
        if is_old { None } else { run_status::read(file).ok() }
    }

    fn open_log(&self, path: PathBuf) -> Result<EventLogReader, EventLogError> {
        match self.open(&path) {
            Ok(file) => Ok(EventLogReader::of_file(file, &path)),
            Err(source) => Err(EventLogError::Io { action: "open", path, source }),
        }
    }

    /// Opens a regular file that belongs to the folder's owner.
    fn open_own(&self, path: &Path, access: OFlags) -> io::Result<File> {
        let file = self.open_owned(path, access)?;
        if file.metadata()?.is_file() { Ok(file) } else { Err(foreign()) }
    }

    /// Opens a file or folder that belongs to the folder's owner. Refuses links, which may lead to files that the owner
    /// cannot open, and does not wait for pipes.
    fn open_owned(&self, path: &Path, access: OFlags) -> io::Result<File> {
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = openat(CWD, path, flags, Mode::empty());
        // A link, where a folder is wanted too, or a pipe without a reader.
        let file = File::from(opened.map_err(|error| match error {
            Errno::LOOP | Errno::NXIO | Errno::NOTDIR => foreign(),
            error => error.into(),
        })?);
        if file.metadata()?.uid() == self.owner()? { Ok(file) } else { Err(foreign()) }
    }

    /// Returns the last lines of the runner's output: at most `lines`, from its last 16 KiB.
    pub(crate) fn runner_log_tail(&self, lines: usize) -> String {
        let log = self.open(&self.runner_log());
        let bytes = log.and_then(|log| tail(log, 16 * 1024)).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let all: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

fn foreign() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "it is not a file of the job's user")
}

fn tail(mut file: File, bytes: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
    let mut text = Vec::new();
    file.take(bytes).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_last_lines() {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = RunDir::new(folder.path(), "a");
        assert_eq!(run_dir.runner_log_tail(2), "");
        run_dir.create(None).unwrap();
        run_dir.open_runner_log().unwrap().write_all(b"one\ntwo\n\nthree \xff\n").unwrap();
        assert_eq!(run_dir.runner_log_tail(2), "two\nthree \u{fffd}");
        run_dir.open_runner_log().unwrap().write_all(b"four\n").unwrap();
        assert_eq!(run_dir.runner_log_tail(1), "four");
    }

    #[test]
    fn an_adopted_folder_is_asked_to_stop_once() {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = RunDir::new(folder.path(), "a");
        let target = folder.path().join("run");
        fs::create_dir(&target).unwrap();
        run_dir.link(&target, rustix::process::getuid().as_raw()).unwrap();
        assert_eq!(run_dir.linked(), Some(target.clone()));
        for request in ["cancel", "interrupt"] {
            run_dir.request_stop(request).unwrap();
            assert_eq!(fs::read_to_string(target.join("stop")).unwrap(), "cancel");
        }
        run_dir.unlink();
        assert!(run_dir.linked().is_none() && target.is_dir());
    }

    #[test]
    fn a_folder_that_another_user_put_in_place_of_an_adopted_one_is_not_used() {
        let (folder, others) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let run_dir = RunDir::new(folder.path(), "a");
        fs::write(others.path().join("runner.log"), "hidden\n").unwrap();
        run_dir.link(others.path(), rustix::process::getuid().as_raw()).unwrap();
        assert_eq!(run_dir.runner_log_tail(1), "hidden");
        // Root can give the folder to another account than that of the link.
        if std::os::unix::fs::lchown(run_dir.path(), Some(12_345), None).is_ok() {
            assert_eq!(run_dir.runner_log_tail(1), "");
            assert!(run_dir.request_stop("cancel").is_err());
        }
    }

    #[test]
    fn folders_that_links_lead_to_are_not_listed() {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = RunDir::new(folder.path(), "a");
        run_dir.create(None).unwrap();
        let list = || run_dir.names(&run_dir.programs(), 9);
        assert_eq!(list().unwrap(), [""; 0]);
        fs::create_dir(run_dir.programs()).unwrap();
        fs::write(run_dir.programs().join("step"), "").unwrap();
        assert_eq!(list().unwrap(), ["step"]);
        fs::rename(run_dir.programs(), folder.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), run_dir.programs()).unwrap();
        assert_eq!(list().unwrap_err().kind(), ErrorKind::InvalidData);
        fs::remove_file(run_dir.programs()).unwrap();
        fs::write(run_dir.programs(), "").unwrap();
        assert_eq!(list().unwrap_err().kind(), ErrorKind::InvalidData);
        // As root, who may give it to somebody else.
        fs::remove_file(run_dir.programs()).unwrap();
        fs::create_dir(run_dir.programs()).unwrap();
        if std::os::unix::fs::chown(run_dir.programs(), Some(12_345), None).is_ok() {
            assert_eq!(list().unwrap_err().kind(), ErrorKind::InvalidData);
        }
    }

    #[test]
    fn links_and_pipes_in_the_run_folder_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = RunDir::new(folder.path(), "a");
        run_dir.create(None).unwrap();
        let secret = folder.path().join("secret");
        fs::write(&secret, "hidden\n").unwrap();
        std::os::unix::fs::symlink(&secret, run_dir.runner_log()).unwrap();
        assert_eq!(run_dir.runner_log_tail(9), "");
        assert!(run_dir.open_runner_log().is_err());
        let pipe = run_dir.events_log();
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(run_dir.open(&pipe).is_err(), "without waiting for a writer");
    }
}
