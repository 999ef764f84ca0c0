//! Restores a backup into a new state folder.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, chown, lchown, symlink};
use std::path::{Component, Path, PathBuf};

use tar::{Archive, EntryType};
use traind_durable::sync_folder;

use super::members::{Member, Members};
use super::{ACCESS, AUDIT, BackupError, MANIFEST, Manifest, VERSION};
use crate::jobs::doctor::{LOCK, STORE, StoppedState};
use crate::jobs::restored::Restored;
use crate::jobs::run_dir::RunDir;
use crate::jobs::store::Store;
use crate::jobs::supervisor::claim::{self, Claim};
use crate::size;

/// Stands for the boot of runners that the restored folder does not know.
const NO_BOOT: &str = "restored";

/// The store until all else is in place.
const ASIDE: &str = "traind.db.restored";

/// The folders of a state folder that have one folder for each job.
const OF_JOBS: [&str; 2] = ["records", "jobs"];

type Reader = zstd::Decoder<'static, BufReader<File>>;

/// Restores the backup `path` into `state_dir`, which must be empty or absent. The store is put in
/// place last: an interrupted restoration leaves no folder that a daemon would use.
pub(crate) fn restore(path: &Path, state_dir: &Path) -> Result<Manifest, BackupError> {
    let file = File::open(path).map_err(BackupError::io("open", path))?;
    create(state_dir)?;
    let _lock = StoppedState::lock(state_dir)?;
    refuse_used(state_dir)?;
    let restored = restore_file(path, file, state_dir);
    if restored.is_err() {
        // What a damaged or hostile archive left would fill the disk, and be in the way of the right one.
        remove_restored(state_dir);
    }
    restored
}

fn restore_file(path: &Path, file: File, state_dir: &Path) -> Result<Manifest, BackupError> {
    let no_backup = |error: io::Error| BackupError::NoBackup {
        path: path.to_owned(),
        problem: error.to_string(),
    };
    let mut archive: Archive<Reader> = Archive::new(zstd::Decoder::new(file).map_err(no_backup)?);
    let mut members = Members::new(&mut archive).map_err(no_backup)?;
    let first = members.next().transpose().map_err(no_backup)?;
    let manifest = read_manifest(path, first)?;
    let aside = state_dir.join(ASIDE);
    let mut has_store = false;
    for member in members {
        let member = member.map_err(no_backup)?;
        let is_store = member.name == Path::new(STORE);
        let refused = refuse_odd(&member).and_then(|()| refuse_larger(&member, state_dir));
        refused.map_err(|problem| BackupError::NoBackup { path: path.to_owned(), problem })?;
        has_store |= is_store;
        let target = if is_store { aside.clone() } else { target(path, state_dir, &member.name)? };
        unpack(member, state_dir, &target).map_err(BackupError::io("restore", &target))?;
    }
    if !has_store {
        let problem = "it has no job store".to_owned();
        return Err(BackupError::NoBackup { path: path.to_owned(), problem });
    }
    // The checksum is at the end.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(no_backup)?;
    check_store(path, &aside)?;
    begin_anew(state_dir, &aside, &manifest)?;
    let store = state_dir.join(STORE);
    fs::rename(&aside, &store).map_err(BackupError::io("restore", &store))?;
    sync_folder(state_dir).map_err(BackupError::io("sync", state_dir))?;
    Ok(manifest)
}

/// Refuses an entry that no backup has: files are regular, and only a job's folder is a link, that to an adopted run.
fn refuse_odd(Member { entry, name, .. }: &Member<'_, Reader>) -> Result<(), String> {
    let is_job = name.starts_with("jobs") && name.components().count() == 2;
    let kind = entry.header().entry_type();
    match kind {
        EntryType::Regular => {}
        EntryType::Symlink if is_job => {}
        _ => return Err(format!("its entry {} is of the kind {kind:?}", name.display())),
    }
    match entry.header().uid() {
        // The last one stands for no change of the owner.
        Ok(uid) if uid < u32::MAX.into() => Ok(()),
        _ => Err(format!("its entry {} has an owner that no user is", name.display())),
    }
}

/// Refuses a file that the disk has no room for: a few kilobytes can stand for any number of zeros. What the archive
/// says of sizes is what it has at most.
fn refuse_larger(member: &Member<'_, Reader>, state_dir: &Path) -> Result<(), String> {
    let free = rustix::fs::statvfs(state_dir)
        .map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    let bytes = member.entry.header().entry_size().map_err(|error| error.to_string())?;
    if bytes <= free {
        return Ok(());
    }
    let (name, dir) = (member.name.display(), state_dir.display());
    let [bytes, free] = [bytes, free].map(size::bytes);
    Err(format!("its entry {name} takes {bytes}, and the disk of {dir} has {free}"))
}

/// Refuses a store that is damaged, that has code, which would be executed by changes of jobs, or that names folders
/// outside.
fn check_store(path: &Path, store: &Path) -> Result<(), BackupError> {
    let store = Store::open(store)?;
    let mut problems = store.integrity()?;
    problems.extend(store.code()?.into_iter().map(|name| format!("its job store has the {name}")));
    let is_name = |id: &str| {
        let mut parts = Path::new(id).components();
        matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
    };
    let ids = store.ids()?;
    let odd = ids.iter().filter(|id| !is_name(id));
    problems.extend(odd.map(|id| format!("its job store has a job with the id {id:?}")));
    match problems.into_iter().next() {
        Some(problem) => Err(BackupError::NoBackup { path: path.to_owned(), problem }),
        None => Ok(()),
    }
}

/// Lets all unfinished jobs continue from their newest checkpoints, as after a crash of their host. Runners that may
/// still be alive report to the folder that was backed up, and jobs that waited may have run since. Those of clusters
/// are looked for there before they are submitted again.
fn begin_anew(state_dir: &Path, store: &Path, manifest: &Manifest) -> Result<(), BackupError> {
    let store = Store::open(store)?;
    for job in store.unfinished()?.iter().filter(|job| job.cluster_kind().is_some()) {
        let run_dir = RunDir::new(state_dir, &job.id);
        let before = manifest.state_dir.as_deref();
        let restored = Restored {
            time: manifest.time,
            since_attempt: job.attempt + u32::from(!job.state.is_active()),
            run_dir: before.map(|before| RunDir::new(Path::new(before), &job.id).path().to_owned()),
            follows: None,
        };
        restored.write(&run_dir).map_err(BackupError::io("write", run_dir.path()))?;
    }
    store.expect_checkpoints()?;
    for id in store.ids()? {
        let run_dir = RunDir::new(state_dir, &id);
        for path in run_dir.claimed_attempts().into_iter().map(|attempt| run_dir.claim(attempt)) {
            let Ok(Claim::Runner(mut runner)) = claim::read(&path) else { continue };
            NO_BOOT.clone_into(&mut runner.boot_id);
            let text = serde_json::to_vec(&Claim::Runner(runner)).map_err(io::Error::from);
            let written = text.and_then(|text| fs::write(&path, text));
            written.map_err(BackupError::io("write", &path))?;
        }
    }
    Ok(store.checkpoint()?)
}

fn read_manifest(path: &Path, first: Option<Member<'_, Reader>>) -> Result<Manifest, BackupError> {
    let no_backup = |problem: String| BackupError::NoBackup { path: path.to_owned(), problem };
    let first = first.filter(|member| member.name == Path::new(MANIFEST));
    let first = first.ok_or_else(|| no_backup(format!("it does not begin with {MANIFEST}")))?;
    // A manifest has about a hundred bytes.
    let manifest: Manifest = serde_json::from_reader(first.entry.take(1 << 16))
        .map_err(|error| no_backup(error.to_string()))?;
    match manifest.version > VERSION {
        true => Err(BackupError::Newer {
            path: path.to_owned(),
            found: manifest.version,
            traind: manifest.traind,
        }),
        false => Ok(manifest),
    }
}

/// The path of an entry in the state folder. An archive names nothing outside.
fn target(path: &Path, state_dir: &Path, name: &Path) -> Result<PathBuf, BackupError> {
    let parts: Vec<Component<'_>> = name.components().collect();
    let are_names = parts.iter().all(|part| matches!(part, Component::Normal(_)));
    let is_of_job = parts.len() >= 2 && OF_JOBS.iter().any(|folder| name.starts_with(folder));
    let is_audit = parts.len() == 2 && name.starts_with(AUDIT);
    if are_names && (is_of_job || is_audit || name == Path::new(ACCESS)) {
        return Ok(state_dir.join(name));
    }
    let problem = format!("it has the entry {}", name.display());
    Err(BackupError::NoBackup { path: path.to_owned(), problem })
}

fn unpack(member: Member<'_, Reader>, state_dir: &Path, target: &Path) -> io::Result<()> {
    let Member { mut entry, link, .. } = member;
    let owner = entry.header().uid()? as u32;
    let folder = target.parent().unwrap_or(state_dir);
    create_folders(state_dir, folder, owner)?;
    if entry.header().entry_type() == EntryType::Symlink {
        symlink(link.unwrap_or_default(), target)?;
        return give(|uid| lchown(target, uid, None), owner);
    }
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(target)?;
    io::copy(&mut entry, &mut file)?;
    file.sync_all()?;
    give(|uid| chown(target, uid, None), owner)
}

/// Creates the folders of a job, of which those of its run belong to its user. A link to a run's
/// folder is none of them: what stands behind it is outside.
fn create_folders(state_dir: &Path, folder: &Path, owner: u32) -> io::Result<()> {
    if folder == state_dir {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        create_folders(state_dir, parent, owner)?;
    }
    if folder.is_symlink() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "its folder is a link"));
    }
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let is_of_run = folder.starts_with(state_dir.join("jobs")) && folder != state_dir.join("jobs");
    if is_of_run { give(|uid| chown(folder, uid, None), owner) } else { Ok(()) }
}

/// Gives a file to its owner where this process may.
fn give(change: impl FnOnce(Option<u32>) -> io::Result<()>, owner: u32) -> io::Result<()> {
    match rustix::process::geteuid().is_root() {
        true => change(Some(owner)),
        false => Ok(()),
    }
}

fn create(state_dir: &Path) -> Result<(), BackupError> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(state_dir);
    created.map_err(BackupError::io("create", state_dir))
}

/// Removes all that a restoration makes, and nothing behind a link.
fn remove_restored(state_dir: &Path) {
    for folder in OF_JOBS.into_iter().chain([AUDIT]) {
        let _ = fs::remove_dir_all(state_dir.join(folder));
    }
    for file in [ACCESS, ASIDE] {
        let _ = fs::remove_file(state_dir.join(file));
    }
    for end in ["-wal", "-shm"] {
        let _ = fs::remove_file(state_dir.join(format!("{ASIDE}{end}")));
    }
}

/// Refuses a folder that has anything but the lock.
fn refuse_used(state_dir: &Path) -> Result<(), BackupError> {
    let entries = fs::read_dir(state_dir).map_err(BackupError::io("list", state_dir))?;
    let is_used = entries.flatten().any(|entry| entry.file_name() != LOCK);
    if is_used { Err(BackupError::NotEmpty(state_dir.to_owned())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tar::{Builder, Header};

    use super::*;
    use crate::jobs::store::NewJob;

    fn header(kind: EntryType, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_uid(rustix::process::getuid().as_raw().into());
        header
    }

    /// An archive with a manifest, and what `append` adds.
    fn archive(append: impl Fn(&mut Builder<zstd::Encoder<'_, Vec<u8>>>)) -> Vec<u8> {
        let mut archive = Builder::new(zstd::Encoder::new(Vec::new(), 0).unwrap());
        let manifest =
            Manifest { version: VERSION, traind: String::new(), time: 0, jobs: 1, state_dir: None };
        let json = serde_json::to_vec(&manifest).unwrap();
        let mut first = header(EntryType::Regular, json.len() as u64);
        archive.append_data(&mut first, MANIFEST, &json[..]).unwrap();
        append(&mut archive);
        archive.into_inner().unwrap().finish().unwrap()
    }

    /// Restores an archive. Returns its error, and whether there is a store then.
    fn restored(folder: &Path, archive: &[u8]) -> (Option<String>, bool) {
        let (path, state_dir) = (folder.join("backup"), folder.join("state"));
        fs::write(&path, archive).unwrap();
        let _ = fs::remove_dir_all(&state_dir);
        let error = restore(&path, &state_dir).err().map(|error| error.to_string());
        (error, state_dir.join(STORE).exists())
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        fs::create_dir_all(outside.join("b")).unwrap();
        for file in ["jobs/a/file", "jobs/a/b/file", "jobs/a/c/file"] {
            let archive = archive(|archive| {
                let mut link = header(EntryType::Symlink, 0);
                archive.append_link(&mut link, "jobs/a", &outside).unwrap();
                archive.append_data(&mut header(EntryType::Regular, 1), file, &b"x"[..]).unwrap();
            });
            let (error, _) = restored(folder.path(), &archive);
            let error = error.unwrap();
            assert!(error.contains("its folder is a link"), "{file}: {error}");
            assert!(!outside.join("file").exists() && !outside.join("c").exists(), "{file}");
            assert!(!outside.join("b/file").exists(), "{file}");
        }
    }

    #[test]
    fn entries_that_no_backup_has_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let check = |kind: EntryType, name: &str, uid: u64, expect: &str| {
            let archive = archive(|archive| {
                let mut header = header(kind, 0);
                header.set_uid(uid);
                archive.append_link(&mut header, name, "/etc/passwd").unwrap();
            });
            let (error, has_store) = restored(folder.path(), &archive);
            assert!(error.as_ref().is_some_and(|it| it.contains(expect)), "{name}: {error:?}");
            assert!(!has_store);
        };
        for name in [STORE, ACCESS, "records/a", "jobs/a/events.log", "audit/audit-1.jsonl"] {
            check(EntryType::Symlink, name, 0, "is of the kind Symlink");
        }
        check(EntryType::Link, "jobs/a/events.log", 0, "is of the kind Link");
        check(EntryType::Fifo, "jobs/a/events.log", 0, "is of the kind Fifo");
        check(EntryType::Regular, "jobs/a/events.log", u32::MAX.into(), "no user is");
        check(EntryType::Regular, "jobs/a/events.log", 1 << 32, "no user is");
        check(EntryType::Regular, "etc/passwd", 0, "has the entry etc/passwd");
    }

    /// A name is read into memory, and a file onto the disk; of both, a few kilobytes can have any number of bytes.
    #[test]
    fn bombs_are_refused_and_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let zeros = |kind: EntryType, bytes: u64| {
            archive(|archive| {
                let small = header(EntryType::Regular, 4);
                archive.append_data(&mut small.clone(), "jobs/a/first", &b"text"[..]).unwrap();
                let mut header = header(kind, bytes);
                header.set_path("jobs/a/file").unwrap();
                header.set_cksum();
                // Its content is missing: what matters is what is said of it.
                archive.get_mut().write_all(header.as_bytes()).unwrap();
                archive.get_mut().write_all(&[b'a'; 1 << 16]).unwrap();
            })
        };
        for kind in [EntryType::GNULongName, EntryType::GNULongLink] {
            let (error, _) = restored(folder.path(), &zeros(kind, 1 << 16));
            assert!(error.as_ref().unwrap().contains("it has a name of 65536 bytes"), "{error:?}");
        }
        for kind in [EntryType::XHeader, EntryType::XGlobalHeader, EntryType::GNUSparse] {
            let (error, _) = restored(folder.path(), &zeros(kind, 1 << 16));
            assert!(error.as_ref().unwrap().contains("is of the kind"), "{error:?}");
        }
        let (error, _) = restored(folder.path(), &zeros(EntryType::Regular, 1 << 60));
        let error = error.unwrap();
        assert!(
            error.contains("its entry jobs/a/file takes 1048576.0 TiB, and the disk"),
            "{error}"
        );
        let left = fs::read_dir(folder.path().join("state")).unwrap().flatten();
        let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        assert_eq!(left, [LOCK], "what was there is in the way of the right backup");
    }

    #[test]
    fn long_names_and_links_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("original.db");
        drop(Store::open(&path).unwrap());
        let bytes = fs::read(&path).unwrap();
        let (name, link) = (format!("jobs/a/{}", "n".repeat(200)), format!("/{}", "l".repeat(200)));
        let archive = archive(|archive| {
            let mut store = header(EntryType::Regular, bytes.len() as u64);
            archive.append_data(&mut store, STORE, &bytes[..]).unwrap();
            archive.append_data(&mut header(EntryType::Regular, 1), &name, &b"x"[..]).unwrap();
            archive.append_link(&mut header(EntryType::Symlink, 0), "jobs/b", &link).unwrap();
        });
        assert_eq!(restored(folder.path(), &archive), (None, true));
        let state = folder.path().join("state");
        assert_eq!(fs::read_to_string(state.join(&name)).unwrap(), "x");
        assert_eq!(fs::read_link(state.join("jobs/b")).unwrap(), Path::new(&link));
    }

    /// Restores a store that SQL has changed.
    fn restored_store(change: &str) -> (Option<String>, bool) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("original.db");
        let store = Store::open(&path).unwrap();
        store.create(&NewJob { id: "a".to_owned(), ..NewJob::default() }).unwrap();
        drop(store);
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.execute_batch(change).unwrap();
        drop(connection);
        let bytes = fs::read(&path).unwrap();
        let archive = archive(|archive| {
            let mut header = header(EntryType::Regular, bytes.len() as u64);
            archive.append_data(&mut header, STORE, &bytes[..]).unwrap();
        });
        restored(folder.path(), &archive)
    }

    #[test]
    fn a_store_with_code_or_paths_is_refused() {
        assert_eq!(restored_store(""), (None, true));
        for (change, expect) in [
            (
                "CREATE TRIGGER grow AFTER INSERT ON events BEGIN DELETE FROM jobs; END",
                "has the trigger grow",
            ),
            ("CREATE VIEW looks AS SELECT * FROM jobs", "has the view looks"),
            ("UPDATE jobs SET id = '../../etc'", r#"the id "../../etc""#),
            ("UPDATE jobs SET id = ''", r#"the id """#),
        ] {
            let (error, has_store) = restored_store(change);
            assert!(error.as_ref().is_some_and(|it| it.contains(expect)), "{change}: {error:?}");
            assert!(!has_store, "{change}");
        }
    }
}
