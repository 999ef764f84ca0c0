//! Writes a backup.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tar::{Builder, EntryType, Header};
use traind_durable::sync_folder;
use traind_proto::sample_ledger::SAMPLE_LEDGER_FILE;

use super::{ACCESS, AUDIT, BackupError, MANIFEST, Manifest, VERSION};
use crate::clock;
use crate::jobs::doctor::STORE;
use crate::jobs::record;
use crate::jobs::run_dir::RunDir;
use crate::jobs::store::{self, is_blank};

/// Files of a run folder that are kept, besides the logs of further hosts.
const RUN_FILES: [&str; 4] = ["run.json", "events.log", "runner.log", SAMPLE_LEDGER_FILE];

/// The most further hosts of a job whose logs are kept.
const HOSTS_MAX: usize = 10_000;

type Archive = Builder<zstd::Encoder<'static, BufWriter<Interruptible>>>;

/// A file that is written until its writer is interrupted.
struct Interruptible {
    file: File,
    interrupted: Arc<AtomicBool>,
}

impl Write for Interruptible {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(io::Error::other("interrupted"));
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes a backup of `state_dir` to the new file `path`, with the access file if one is given. A
/// daemon may use the folder meanwhile. Durable on return. Once `interrupted` is set, it fails and leaves nothing.
pub(crate) fn back_up(
    state_dir: &Path,
    access: Option<&Path>,
    path: &Path,
    interrupted: &Arc<AtomicBool>,
) -> Result<Manifest, BackupError> {
    let store = state_dir.join(STORE);
    if is_blank(&store) {
        return Err(BackupError::NoStore(store));
    }
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    let file = file.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => BackupError::Exists(path.to_owned()),
        _ => BackupError::io("create", path)(source),
    })?;
    let file = Interruptible { file, interrupted: Arc::clone(interrupted) };
    let written = write(state_dir, access, path, file);
    if written.is_err() {
        // Part of a backup is none.
        let _ = fs::remove_file(path);
    }
    written
}

fn write(
    state_dir: &Path,
    access: Option<&Path>,
    path: &Path,
    file: Interruptible,
) -> Result<Manifest, BackupError> {
    let io_error = |source| BackupError::io("write", path)(source);
    // Beside the archive, whose disk has room for it.
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let copied = tempfile::tempdir_in(folder.unwrap_or(Path::new(".")));
    // Its own error names the temporary folder.
    let copied = copied.map_err(|error| io_error(error.kind().into()))?;
    let (snapshot, time) = (copied.path().join(STORE), clock::now());
    let ids = store::snapshot(&state_dir.join(STORE), &snapshot)?;
    let manifest = Manifest {
        version: VERSION,
        traind: env!("CARGO_PKG_VERSION").to_owned(),
        time,
        jobs: ids.len() as u64,
        state_dir: state_dir
            .canonicalize()
            .ok()
            .and_then(|path| path.into_os_string().into_string().ok()),
    };
    let mut encoder = zstd::Encoder::new(BufWriter::new(file), 0).map_err(io_error)?;
    encoder.include_checksum(true).map_err(io_error)?;
    let mut archive = Builder::new(encoder);
    let json = serde_json::to_vec(&manifest).map_err(io::Error::from).map_err(io_error)?;
    append(&mut archive, Path::new(MANIFEST), &json[..], json.len() as u64, 0).map_err(io_error)?;
    append_path(&mut archive, Path::new(STORE), &snapshot)?;
    if let Some(access) = access {
        append_path(&mut archive, Path::new(ACCESS), access)?;
    }
    for id in &ids {
        append_job(&mut archive, state_dir, id)?;
    }
    append_audit(&mut archive, state_dir)?;
    let encoder = archive.into_inner().map_err(io_error)?;
    let mut buffer = encoder.finish().map_err(io_error)?;
    buffer.flush().and_then(|()| buffer.get_ref().file.sync_all()).map_err(io_error)?;
    sync_folder(folder.unwrap_or(Path::new("."))).map_err(io_error)?;
    Ok(manifest)
}

/// Appends a job's records, and its run's logs or, of an adopted run, the link to its folder.
fn append_job(archive: &mut Archive, state_dir: &Path, id: &str) -> Result<(), BackupError> {
    let records = record::folder(state_dir).join(id);
    for path in files(&records)? {
        let name = Path::new("records").join(id).join(path.file_name().unwrap_or_default());
        append_path(archive, &name, &path)?;
    }
    let run_dir = RunDir::new(state_dir, id);
    if let Some(target) = run_dir.linked() {
        return append_link(archive, id, &run_dir, &target);
    }
    for name in run_files(&run_dir) {
        // Files that the job's user replaced by something else are left out.
        let Ok(file) = run_dir.open(&run_dir.path().join(&name)) else { continue };
        let entry = Path::new("jobs").join(id).join(&name);
        append_file(archive, &entry, &file).map_err(BackupError::io("back up", &entry))?;
    }
    Ok(())
}

/// Appends the audit log. Files that are removed meanwhile, as the oldest ones, are left out.
fn append_audit(archive: &mut Archive, state_dir: &Path) -> Result<(), BackupError> {
    for path in files(&state_dir.join(AUDIT))? {
        let Ok(file) = File::open(&path) else { continue };
        let name = Path::new(AUDIT).join(path.file_name().unwrap_or_default());
        append_file(archive, &name, &file).map_err(BackupError::io("back up", &path))?;
    }
    Ok(())
}

/// The names of the files to keep, relative to the run folder.
fn run_files(run_dir: &RunDir) -> Vec<PathBuf> {
    // What the job's user put in place of the folder is left out.
    let hosts = run_dir.names(&run_dir.path().join("hosts"), HOSTS_MAX).unwrap_or_default();
    let logs = hosts.iter().map(|host| Path::new("hosts").join(host).join("events.log"));
    RUN_FILES.map(PathBuf::from).into_iter().chain(logs).collect()
}

/// The regular files of a folder; none if it does not exist.
fn files(folder: &Path) -> Result<Vec<PathBuf>, BackupError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(BackupError::io("list", folder)(source)),
    };
    let paths = entries.map(|entry| Ok(entry.map_err(BackupError::io("list", folder))?.path()));
    let paths: Vec<PathBuf> = paths.collect::<Result<_, BackupError>>()?;
    Ok(paths.into_iter().filter(|path| path.is_file()).collect())
}

fn append_path(archive: &mut Archive, name: &Path, path: &Path) -> Result<(), BackupError> {
    let file = File::open(path).map_err(BackupError::io("open", path))?;
    append_file(archive, name, &file).map_err(BackupError::io("back up", path))
}

/// Appends as many bytes as the file has now: its writer may append to it.
fn append_file(archive: &mut Archive, name: &Path, file: &File) -> io::Result<()> {
    let found = file.metadata()?;
    append(archive, name, file.take(found.len()), found.len(), found.uid())
}

fn append(
    archive: &mut Archive,
    name: &Path,
    content: impl Read,
    size: u64,
    uid: u32,
) -> io::Result<()> {
    let mut header = header(EntryType::Regular, uid);
    header.set_size(size);
    archive.append_data(&mut header, name, content)
}

fn append_link(
    archive: &mut Archive,
    id: &str,
    run_dir: &RunDir,
    target: &Path,
) -> Result<(), BackupError> {
    let io_error = |source| BackupError::io("back up", run_dir.path())(source);
    let owner = fs::symlink_metadata(run_dir.path()).map_err(io_error)?.uid();
    let mut header = header(EntryType::Symlink, owner);
    archive.append_link(&mut header, Path::new("jobs").join(id), target).map_err(io_error)
}

fn header(kind: EntryType, uid: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(0o600);
    header.set_uid(uid.into());
    // No reader takes an entry without one, also that of a link.
    header.set_size(0);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_backup_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        fs::create_dir(&state).unwrap();
        drop(store::Store::open(&state.join(STORE)).unwrap());
        let out = folder.path().join("out");
        fs::create_dir(&out).unwrap();
        let back_up = |name: &str, interrupted: bool| {
            back_up(&state, None, &out.join(name), &Arc::new(AtomicBool::new(interrupted)))
        };
        assert!(back_up("a.tar.zst", true).unwrap_err().to_string().contains("interrupted"));
        assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
        back_up("a.tar.zst", false).unwrap();
    }
}
