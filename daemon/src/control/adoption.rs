//! Adoption of runs that were started without the daemon: `srun traind-runner job.yaml`. Only `run.json` is read
//! here, with the rights of the caller.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use rustix::fs::{CWD, Mode, OFlags, openat};
use serde_json::Value;
use traind_job_file::{JobFile, RUN_SPEC_FILE, RunSpec, Violation};
use traind_proto::event_log::EventLogReader;
use traind_proto::v1::{self, event::Kind};

use super::admission::{forbidden_notifications, resolved};
use super::daemon::Daemon;
use super::error::Error;
use super::fork::remove_nulls;
use crate::access::account::{Account, user_name, with_rights_of};
use crate::access::{Caller, Role};
use crate::clock;
use crate::job_id;
use crate::jobs::record;
use crate::jobs::run_dir::RunDir;
use crate::jobs::store::{ADOPTED, Job, JobWarning, NewJob, Store};
use crate::jobs::supervisor::Begin;
use crate::jobs::supervisor::claim::{self, Claim};
use crate::notification::{Receiver, receivers_of};
use crate::settings::Settings;

/// The size of the largest `run.json` that is read: a submission is not longer either.
const SPEC_BYTES_MAX: u64 = 4 << 20;

/// The most runs of one user that are followed at a time: each is read several times a second.
const FOLLOWED_MAX: usize = 500;

/// Far above what a run reaches; later attempts are counted from it.
const ATTEMPT_MAX: u32 = 1_000_000;

/// How much of a log is searched for the beginning of the attempt.
const SEARCHED_BYTES_MAX: u64 = 64 << 20;

const NOT_NOTIFIED: &str = "NOTIFICATIONS_IGNORED";

impl Daemon {
    /// Follows a run that was started without the daemon.
    pub(crate) async fn adopt(
        self: &Arc<Daemon>,
        request: v1::AdoptRunRequest,
        caller: Caller,
    ) -> Result<Job, Error> {
        let daemon = self.clone();
        let adopt = move |_: &Store| daemon.adopt_blocking(&request.run_dir, caller);
        let (job, is_new) = self.store.run(adopt).await?;
        if is_new {
            self.attend(job.clone(), Begin::Attach);
        }
        self.get(&job.id, None).await
    }

    /// Returns the job, and whether nobody follows it yet.
    fn adopt_blocking(&self, folder: &str, caller: Caller) -> Result<(Job, bool), Error> {
        let (settings, store) = (&self.settings, &self.store);
        let run = find(folder, &caller, settings)?;
        // Two requests for one run are answered one after the other. None waits for a file system that does not answer.
        let _one = self.adopting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(job) = follower(store, settings, &run)? {
            return Ok((job, false));
        }
        let new = job(&run, caller, settings)?;
        refuse_too_many(store, &new.owner, FOLLOWED_MAX)?;
        let run_dir = self.run_dir(&new.id);
        run_dir.link(&run.folder, run.owner.uid).map_err(Error::Link)?;
        let claim = || claim::claim(&run_dir.claim(run.spec.attempt), &Claim::Adopted);
        let adopted = claim().map_err(Error::Link);
        let adopted = adopted.and_then(|_| Ok(store.adopt(&new, run.spec.attempt, run.began)?));
        let job = adopted.inspect_err(|_| run_dir.unlink())?;
        // A record of a job that the store does not have would keep the next daemon from starting.
        if let Err(error) = record::write_adopted(&run_dir, &new) {
            tracing::warn!(job = job.id, %error, "write the job's record");
        }
        Ok((job, true))
    }
}

/// A run to adopt.
struct Found {
    /// The run folder, without links.
    folder: PathBuf,
    /// The user whose folder it is.
    owner: Account,
    spec: RunSpec,
    /// When the attempt began, in microseconds since 1970, if it has.
    began: Option<i64>,
}

/// Finds the run in `folder`, which must belong to the caller unless that is an admin.
fn find(folder: &str, caller: &Caller, settings: &Settings) -> Result<Found, Error> {
    let given = Path::new(folder);
    if !given.is_absolute() {
        return Err(refused("must be an absolute path".to_owned()));
    }
    let located = with_rights_of(caller.account, || locate(given)).map_err(Error::Switch)?;
    let (folder, owner) =
        located.map_err(|error| refused(format!("{}: {error}", given.display())))?;
    refuse_foreign(&folder, owner, caller)?;
    if let Some(objection) = settings.roots.objection(&folder) {
        return Err(refused(objection));
    }
    if settings.state_dir.canonicalize().is_ok_and(|state| folder.starts_with(state)) {
        return Err(refused("is the folder of a job of this daemon".to_owned()));
    }
    let spec =
        with_rights_of(caller.account, || read_spec(&folder, owner)).map_err(Error::Switch)?;
    let spec = spec.map_err(|error| {
        refused(format!(
            "{RUN_SPEC_FILE}: {error}; the folder of a run is `run` in its output folder"
        ))
    })?;
    let began = with_rights_of(caller.account, || began(&folder, owner, spec.attempt));
    Ok(Found { folder, owner, began: began.map_err(Error::Switch)?, spec })
}

/// Returns the job that follows the run already.
fn follower(store: &Store, settings: &Settings, run: &Found) -> Result<Option<Job>, Error> {
    let unfinished = store.unfinished()?;
    let follows = |job: &Arc<Job>| {
        let linked = || RunDir::new(&settings.state_dir, &job.id).linked();
        job.is_adopted() && linked().as_deref() == Some(run.folder.as_path())
    };
    Ok(unfinished.into_iter().find(follows).map(|job| (*job).clone()))
}

/// Refuses another run of a user of whom so many are followed.
fn refuse_too_many(store: &Store, owner: &str, max: usize) -> Result<(), Error> {
    let unfinished = store.unfinished()?;
    let of_owner = unfinished.iter().filter(|job| job.is_adopted() && job.owner == owner);
    match of_owner.count() < max {
        true => Ok(()),
        false => Err(Error::Followed { owner: owner.to_owned(), max }),
    }
}

/// The job that follows `run`. Its `run.json` is its user's file, and must be within the limits of a
/// submission.
fn job(run: &Found, caller: Caller, settings: &Settings) -> Result<NewJob, Error> {
    let job = &run.spec.job;
    let mut keys: Value = serde_json::to_value(job).map_err(Error::Resolved)?;
    remove_nulls(&mut keys);
    let job_file =
        serde_saphyr::to_string(&keys).map_err(|error| Error::Fork(error.to_string()))?;
    let parsed = JobFile::parse(&job_file, &run.folder);
    parsed.map_err(|violations| refused(format!("{RUN_SPEC_FILE}: {}", described(&violations))))?;
    let (receivers, warnings) = receivers(run, &caller, settings);
    let is_own = is_own(run.owner, &caller);
    Ok(NewJob {
        id: job_id::new().map_err(Error::Random)?,
        create_time: clock::now(),
        name: job.name.clone(),
        owner: if is_own { caller.user } else { user_name(run.owner.uid) },
        run_as: caller.account.map(|_| run.owner),
        platform: job.resources.platform.to_string(),
        core_count: job.resources.total_cores(),
        price_per_hour: job.resources.price_per_hour,
        engine: ADOPTED.to_owned(),
        hosts: job.resources.hosts,
        receivers,
        warnings,
        output_dir: job.output_dir.display().to_string(),
        job_file,
        base_dir: run.folder.display().to_string(),
        resolved: resolved(job)?,
        ..NewJob::default()
    })
}

/// The receivers of a run's notifications, which its user named: none if somebody else adopts the run, whose
/// rights they would have, or if a job of this user could not have them.
fn receivers(
    run: &Found,
    caller: &Caller,
    settings: &Settings,
) -> (Vec<Receiver>, Vec<JobWarning>) {
    let (named, owner) = (receivers_of(&run.spec.job.notify), user_name(run.owner.uid));
    let account = caller.account.map(|_| run.owner);
    let is_forbidden = !is_own(run.owner, caller)
        || !forbidden_notifications(&run.spec.job, &owner, account, settings).is_empty();
    if named.is_empty() || !is_forbidden {
        return (named, Vec::new());
    }
    let message = format!(
        "the notifications of {RUN_SPEC_FILE} are not sent: its user {owner} named them, and a job that {} \
         submits could not have them",
        caller.user
    );
    (Vec::new(), vec![JobWarning { code: NOT_NOTIFIED.to_owned(), message }])
}

/// The first violations, in one line.
fn described(violations: &[Violation]) -> String {
    const SHOWN: usize = 3;
    let shown = violations.iter().take(SHOWN);
    let shown = shown.map(|it| format!("{} {}", it.field, it.description));
    shown.collect::<Vec<_>>().join("; ")
}

/// The folder without links, and its owner.
fn locate(given: &Path) -> io::Result<(PathBuf, Account)> {
    let folder = given.canonicalize()?;
    let metadata = fs::metadata(&folder)?;
    match metadata.is_dir() {
        true => Ok((folder, Account { uid: metadata.uid(), gid: metadata.gid() })),
        false => Err(io::ErrorKind::NotADirectory.into()),
    }
}

fn refuse_foreign(folder: &Path, owner: Account, caller: &Caller) -> Result<(), Error> {
    match is_own(owner, caller) || caller.role() == Role::Admin {
        true => Ok(()),
        false => {
            let (folder, owner) = (folder.to_owned(), user_name(owner.uid));
            Err(Error::ForeignRun { folder, owner })
        }
    }
}

/// Whether the caller is the user whose folder it is.
fn is_own(owner: Account, caller: &Caller) -> bool {
    match caller.account {
        Some(account) => account.uid == owner.uid,
        None => caller.user == user_name(owner.uid),
    }
}

fn read_spec(folder: &Path, owner: Account) -> io::Result<RunSpec> {
    let mut text = Vec::new();
    let file = open(&folder.join(RUN_SPEC_FILE), owner)?;
    file.take(SPEC_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > SPEC_BYTES_MAX {
        return Err(io::Error::other(format!("is longer than {SPEC_BYTES_MAX} bytes")));
    }
    let spec: RunSpec = serde_json::from_slice(&text)?;
    match (1..=ATTEMPT_MAX).contains(&spec.attempt) {
        true => Ok(spec),
        false => Err(io::Error::other(format!("attempt must be 1 to {ATTEMPT_MAX}"))),
    }
}

/// When the attempt began, by its first event in the first part of the log.
fn began(folder: &Path, owner: Account, attempt: u32) -> Option<i64> {
    let path = folder.join("events.log");
    let log = EventLogReader::of_file(open(&path, owner).ok()?, &path);
    let (mut offset, mut began) = (0, None);
    while offset < SEARCHED_BYTES_MAX
        && let Some(events) = log.read_batch(offset).ok().filter(|events| !events.is_empty())
    {
        for logged in events {
            offset = logged.next_offset;
            if matches!(&logged.event.kind, Some(Kind::Started(it)) if it.attempt == attempt) {
                began = logged.event.time.as_ref().map(clock::micros);
            }
        }
    }
    began
}

/// Opens a regular file of `owner`, and follows no link.
fn open(path: &Path, owner: Account) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, path, flags, Mode::empty())?);
    let found = file.metadata()?;
    match found.is_file() && found.uid() == owner.uid {
        true => Ok(file),
        false => Err(io::Error::other("it is not a file of the folder's user")),
    }
}

fn refused(description: String) -> Error {
    Error::Request { field: "run_dir", description }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runs_of_one_user_that_are_followed_are_limited() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        let adopt = |id: &str, owner: &str| {
            let (engine, output_dir) = (ADOPTED.to_owned(), format!("/out/{id}"));
            let (id, owner) = (id.to_owned(), owner.to_owned());
            let new = NewJob { id, owner, engine, output_dir, ..NewJob::default() };
            store.adopt(&new, 1, None).unwrap();
        };
        adopt("a", "ann");
        adopt("b", "ann");
        adopt("c", "bob");
        refuse_too_many(&store, "ann", 3).unwrap();
        refuse_too_many(&store, "bob", 2).unwrap();
        let error = refuse_too_many(&store, "ann", 2).unwrap_err().to_string();
        assert!(error.starts_with("2 runs of ann are followed"), "{error}");
        store.settle("a", crate::jobs::state::Outcome::Completed, None).unwrap();
        refuse_too_many(&store, "ann", 2).unwrap();
    }

    /// The resolved job that a runner wrote is a job file again.
    #[test]
    fn the_runs_of_all_examples_can_be_adopted() {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples");
        let files: Vec<_> = fs::read_dir(&examples).unwrap().map(|it| it.unwrap().path()).collect();
        let files = files.iter().filter(|path| path.extension().is_some_and(|it| it == "yaml"));
        let mut checked = 0;
        for path in files {
            let Ok(parsed) = JobFile::parse(&fs::read_to_string(path).unwrap(), &examples) else {
                continue;
            };
            let mut keys = serde_json::to_value(&parsed.job).unwrap();
            remove_nulls(&mut keys);
            let again = JobFile::parse(&serde_saphyr::to_string(&keys).unwrap(), Path::new("/run"));
            assert_eq!(again.unwrap().job, parsed.job, "{}", path.display());
            checked += 1;
        }
        assert!(checked > 3, "{checked}");
    }
}
