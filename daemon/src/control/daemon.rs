//! The control plane: owns the store, accepts jobs, and keeps track of every runner.

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use traind_job_file::JobFile;
use traind_job_file::commands::Plan;
use traind_proto::v1;

use super::admission::{self, Admitted, Submission};
use super::board::Board;
use super::charge;
use super::disk_usage::DiskUsage;
use super::error::{Error, FieldViolation};
use super::fences::Fences;
use super::folders_in_use::FoldersInUse;
use super::fork;
use super::generator::Generator;
use super::holds::Holds;
use super::planner::{PlanError, PlannedJob, Planner, Search};
use super::preparer::Preparer;
use super::queue::SharedQueue;
use crate::access::Caller;
use crate::access::audit::AuditLog;
use crate::access::logins::Logins;
use crate::access::tokens::Tokens;
use crate::host::meter::Meter;
use crate::jobs::lost_store;
use crate::jobs::record;
use crate::jobs::reserve::Reserve;
use crate::jobs::run_dir::RunDir;
use crate::jobs::state::JobState;
use crate::jobs::state_lock::{LockError, StateLock};
use crate::jobs::store::{Job, NewJob, Resolved, Store, StoreError};
use crate::jobs::supervisor::{Begin, StopRequests, Supervisor};
use crate::settings::{RunAs, Settings, SettingsError};

/// How long the daemon's own tasks may take to end. Runners are not among them.
const CLOSE_DEADLINE: Duration = Duration::from_secs(5);

/// How often a draining daemon checks whether the last runner has ended.
const DRAIN_PERIOD: Duration = Duration::from_millis(100);

/// The daemon without its sockets, shared by all RPCs and tasks.
pub(crate) struct Daemon {
    pub settings: Arc<Settings>,
    pub store: Store,
    pub tokens: Tokens,
    pub queue: SharedQueue,
    pub planner: Planner,
    pub generator: Generator,
    pub(super) preparer: Preparer,
    /// Notified whenever a job or core may have become available.
    pub(super) wake: Arc<Notify>,
    /// Cancelled when the daemon exits; runners keep running.
    pub closing: CancellationToken,
    /// Cancelled when all runners are to stop, so that their jobs can resume elsewhere or later.
    pub draining: CancellationToken,
    /// Cancelled when all runners have stopped.
    pub drained: CancellationToken,
    /// Requests to the runners, by job id.
    attended: Mutex<HashMap<String, StopRequests>>,
    tasks: TaskTracker,
    board: Board,
    folders: FoldersInUse,
    pub(super) disk_usage: DiskUsage,
    pub(super) fences: Fences,
    pub(super) holds: Holds,
    /// Space for requests to cancel on a full disk.
    reserve: Reserve,
    /// Held while a run is adopted.
    pub(super) adopting: Mutex<()>,
    pub(super) audit: AuditLog,
    /// Sessions of the web page.
    pub logins: Logins,
    _lock: StateLock,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("create {path}: {source}", path = .path.display())]
    StateDir { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("open the audit log in {path}: {source}", path = .path.display())]
    Audit { path: PathBuf, source: io::Error },
}

/// Lets users enter the folders of their own jobs, and list no others.
fn let_users_through(state_dir: &Path) -> io::Result<()> {
    let jobs = state_dir.join("jobs");
    DirBuilder::new().recursive(true).create(&jobs)?;
    for folder in [state_dir, &jobs] {
        fs::set_permissions(folder, Permissions::from_mode(0o711))?;
    }
    Ok(())
}

impl Daemon {
    /// Locks the state folder and opens the store in it.
    pub(crate) fn open(settings: Settings) -> Result<Arc<Daemon>, OpenError> {
        settings.check()?;
        let path = &settings.state_dir;
        let state_dir_error = |source| OpenError::StateDir { path: path.clone(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(state_dir_error)?;
        if settings.run_as == RunAs::Submitter {
            let_users_through(path).map_err(state_dir_error)?;
        }
        let lock = StateLock::acquire(&settings.lock_path())?;
        lost_store::refuse_blank_store(path, &settings.store_path())?;
        let store = Store::open(&settings.store_path())?;
        lost_store::refuse_outdated_store(path, &settings.store_path(), &store)?;
        store.set_operators_receivers(settings.receivers.clone());
        store.set_half_life(settings.access.now().sharing().fair_shares);
        let reserve = Reserve::of(path);
        let holds = Holds::default();
        holds.restore(&store)?;
        let fences = Fences::open(&store)?;
        let tokens = Tokens::new(store.tokens()?);
        let path = path.join("audit");
        let audit = AuditLog::open(&path).map_err(|source| OpenError::Audit { path, source })?;
        Ok(Arc::new(Daemon {
            settings: Arc::new(settings),
            store,
            tokens,
            queue: SharedQueue::default(),
            planner: Planner::default(),
            generator: Generator::default(),
            preparer: Preparer::default(),
            wake: Arc::default(),
            closing: CancellationToken::new(),
            draining: CancellationToken::new(),
            drained: CancellationToken::new(),
            attended: Mutex::default(),
            tasks: TaskTracker::new(),
            board: Board::default(),
            folders: FoldersInUse::default(),
            disk_usage: DiskUsage::default(),
            fences,
            holds,
            reserve,
            adopting: Mutex::default(),
            audit,
            logins: Logins::default(),
            _lock: lock,
        }))
    }

    /// Accepts a job, or returns the one that the same request created before.
    pub(crate) async fn create(self: &Arc<Daemon>, submission: Submission) -> Result<Job, Error> {
        let daemon = self.clone();
        let job = self.store.run(move |_| daemon.create_blocking(&submission)).await?;
        self.get(&job.id, None).await
    }

    pub(super) fn create_blocking(&self, submission: &Submission) -> Result<Job, Error> {
        let (settings, store) = (&self.settings, &self.store);
        if let Some(job) = admission::repeated(store, submission)? {
            return Ok(job);
        }
        let (mut new, mut job) = self.admitted(submission)?;
        admission::check_machine(&job, settings)?;
        admission::refuse_beyond_group(&job, &new.owner, settings)?;
        admission::resolve_after(store, &mut new)?;
        fork::find_parent(store, &mut new, &job)?;
        let search = Search::of_auto(&job);
        let planned = PlannedJob {
            job: &job,
            account: new.run_as,
            may_fetch: search.is_some(),
            with_effects: false,
            search: search.as_ref(),
        };
        match self.planned(&new.owner, planned) {
            Ok(plan) => {
                admission::refuse_misfit(&plan)?;
                admission::refuse_without_space(&plan, &job, &self.settings.state_dir)?;
                admission::refuse_full_disk(self, &new.owner, plan.disk_bytes)?;
                admission::choose_mesh(&plan, &mut new, &mut job)?;
                admission::fit_batch(&plan, &mut new, &mut job)?;
                admission::warn_of_programs(&plan, &mut new);
            }
            Err(error @ PlanError::Violations(_)) => {
                return Err(admission::with_occupied(error.into(), &job, new.run_as));
            }
            Err(error) if job.parallel.auto => return Err(error.into()),
            // What ends the planner would end the runner, or it takes more than anyone could check.
            Err(
                error @ (PlanError::Died { .. } | PlanError::Panicked(_) | PlanError::Timeout(_)),
            ) => return Err(error.into()),
            // The job's runner gives a better error about the model.
            Err(error) => tracing::debug!(%error, "plan a job"),
        }
        let stored = self.store_new(&new, &job);
        // The same request may have created the job meanwhile, whose folders are in use since.
        let job = match stored {
            Err(error) => admission::repeated(store, submission)?.ok_or(error)?,
            Ok(job) => job,
        };
        if job.id != new.id {
            // The same request arrived twice at once, and the other one created the job.
            return Ok(job);
        }
        // The job may start while its record is written.
        self.wake.notify_one();
        // The store has the job; the record is for rebuilding a lost store.
        if let Err(error) = record::write(&self.run_dir(&job.id), &new) {
            tracing::warn!(job = job.id, %error, "write the job's record");
        }
        Ok(job)
    }

    /// A job that can be submitted, with its file. Where its files are missing, the error also has what the planner
    /// finds in the rest.
    fn admitted(&self, submission: &Submission) -> Result<(NewJob, JobFile), Error> {
        let Admitted { new, job, missing } = admission::admit(submission, &self.settings)?;
        match missing.is_empty() {
            true => Ok((new, job)),
            false => Err(self.with_planned(missing, &job, &new)),
        }
    }

    /// The violations of missing files, and those that the planner finds in the rest of the job.
    fn with_planned(&self, missing: Vec<FieldViolation>, job: &JobFile, new: &NewJob) -> Error {
        let account = new.run_as;
        let mut violations = missing;
        let rest = admission::without_missing(job, &violations);
        let plan = |job| {
            let planned =
                PlannedJob { job, account, may_fetch: false, with_effects: false, search: None };
            self.planned(&new.owner, planned)
        };
        if let Some(Err(PlanError::Violations(found))) = rest.as_ref().map(plan) {
            violations.extend(found.into_iter().map(FieldViolation::from));
        }
        Error::JobFile { violations }
    }

    /// Plans a job, and counts the planner's processor time for `owner`.
    fn planned(&self, owner: &str, planned: PlannedJob<'_>) -> Result<Plan, PlanError> {
        let meter = Meter::default();
        let plan = self.planner.plan(&self.settings, planned, &meter);
        charge::charge(&self.store, &self.settings.host, owner, &meter);
        plan
    }

    /// Stores a job, unless its folders are in use. The checkpoint that it resumes from is held until it ends.
    fn store_new(&self, new: &NewJob, job: &JobFile) -> Result<Job, Error> {
        // Jobs of this daemon first, whose states are known; again when the job is stored.
        drop(self.folders.reserve(&self.store, job, new.run_as)?);
        admission::refuse_occupied(job, new.run_as)?;
        self.holds.place(&new.id, job, new.run_as)?;
        let create = || {
            let reservation = self.folders.reserve(&self.store, job, new.run_as)?;
            // No job is stored beside it.
            admission::refuse_full_queue(&self.store, &new.owner, &self.settings)?;
            let stored = self.store.create(new)?;
            if stored.id == new.id {
                reservation.keep(&new.id);
            }
            Ok(stored)
        };
        let stored = create();
        if !stored.as_ref().is_ok_and(|stored| stored.id == new.id) {
            self.holds.release(&new.id);
        }
        stored
    }

    /// Plans a job, and refuses one that does not fit this host. With a search, compares the meshes of
    /// the job's cores.
    pub(crate) async fn plan(
        self: &Arc<Daemon>,
        submission: Submission,
        search: Option<Search>,
    ) -> Result<Plan, Error> {
        let daemon = self.clone();
        self.store.run(move |_| daemon.plan_blocking(&submission, search.as_ref())).await
    }

    fn plan_blocking(
        &self,
        submission: &Submission,
        search: Option<&Search>,
    ) -> Result<Plan, Error> {
        let (new, job) = self.admitted(submission)?;
        let is_here = !search.is_some_and(|search| search.is_elsewhere);
        if is_here {
            admission::check_machine(&job, &self.settings)?;
            admission::refuse_beyond_group(&job, &new.owner, &self.settings)?;
        }
        let search = search.cloned().or_else(|| Search::of_auto(&job));
        let search = search.map(|search| {
            let mut search = search.priced(&job);
            search.meshes.plugin = self.settings.compiling_plugin(&job, new.run_as);
            search
        });
        let planned = PlannedJob {
            job: &job,
            account: new.run_as,
            may_fetch: true,
            with_effects: true,
            search: search.as_ref(),
        };
        let plan = self.planned(&new.owner, planned)?;
        let is_compared = search.is_some_and(|search| !search.meshes.own_mesh);
        // A comparison shows the meshes of which none fits.
        if is_here && !is_compared {
            admission::refuse_misfit(&plan)?;
        }
        if is_here {
            admission::refuse_without_space(&plan, &job, &self.settings.state_dir)?;
        }
        Ok(plan)
    }

    /// Finds a job by its id, a prefix of the id, or its name, among those of `owner` or all.
    pub(crate) async fn get(&self, reference: &str, owner: Option<String>) -> Result<Job, Error> {
        let wanted = reference.to_owned();
        match self.store.run(move |store| store.resolve(&wanted, owner.as_deref())).await? {
            Resolved::Job(job) => Ok(*job),
            Resolved::Nothing => Err(Error::NoJob { reference: reference.to_owned() }),
            Resolved::Several(ids) => {
                Err(Error::Ambiguous { reference: reference.to_owned(), ids })
            }
        }
    }

    /// The current state of every core, by index.
    pub(crate) async fn cores(&self) -> Result<Vec<v1::Core>, Error> {
        self.board.read(&self.settings, &self.store, &self.fences).await
    }

    /// Reloads the access file and the certificates, and schedules by the limits and shares that hold now.
    pub(crate) fn reload(&self) -> anyhow::Result<()> {
        let reloaded = self.settings.reload();
        self.store.set_half_life(self.settings.access.now().sharing().fair_shares);
        self.wake.notify_one();
        reloaded
    }

    /// Requests the end of a job.
    pub(crate) async fn cancel(&self, reference: &str, by: &Caller) -> Result<Job, Error> {
        let id = self.get(reference, by.scope()).await?.id;
        let (wanted, reason) = (id.clone(), format!("cancelled by {}", by.user));
        let run_dir = self.run_dir(&id);
        let reserve = self.reserve.clone();
        let cancel = move |store: &Store| {
            let job = reserve.spend_on(|| store.cancel(&wanted, &reason))?;
            if let Err(error) = record::cancel(&run_dir) {
                tracing::warn!(job = job.id, %error, "record the job's cancellation");
            }
            Ok::<_, StoreError>(job)
        };
        let job = self.store.run(cancel).await?;
        if job.state == JobState::Cancelling
            && let Some(requests) = self.attended().get(&id)
        {
            requests.cancel.cancel();
        }
        self.wake.notify_one();
        self.get(&id, None).await
    }

    /// Stops all runners, which save checkpoints, and then closes the daemon. Returns at once.
    pub(crate) fn drain(self: &Arc<Daemon>, reason: &str) {
        if self.draining.is_cancelled() {
            return;
        }
        tracing::info!(reason, running = self.runner_count(), "drain");
        self.draining.cancel();
        let daemon = self.clone();
        tokio::spawn(async move {
            while daemon.runner_count() > 0 {
                tokio::time::sleep(DRAIN_PERIOD).await;
            }
            // A daemon that closes for another reason follows no runners either.
            if !daemon.closing.is_cancelled() {
                daemon.drained.cancel();
                daemon.closing.cancel();
            }
        });
    }

    /// The number of runners that the daemon follows.
    pub(crate) fn runner_count(&self) -> usize {
        self.attended().len()
    }

    /// Whether the daemon follows the job's runner.
    pub(super) fn attends(&self, id: &str) -> bool {
        self.attended().contains_key(id)
    }

    /// Ends the daemon's own tasks. Runners keep running for a later daemon to find.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        if tokio::time::timeout(CLOSE_DEADLINE, self.tasks.wait()).await.is_err() {
            tracing::warn!("some tasks did not end in time");
        }
    }

    /// Runs a task that `close` waits for.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Follows a job's runner to its end, in a task.
    pub(super) fn attend(self: &Arc<Daemon>, job: Job, begin: Begin) {
        let requests = StopRequests::default();
        if job.state == JobState::Cancelling {
            requests.cancel.cancel();
        }
        self.attended().insert(job.id.clone(), requests.clone());
        let daemon = self.clone();
        self.spawn(async move {
            let id = job.id.clone();
            daemon.supervisor().attend(job, begin, requests).await;
            daemon.attended().remove(&id);
            daemon.wake.notify_one();
        });
    }

    /// Makes a job give up its cores; it resumes from a checkpoint when its turn comes again.
    pub(super) fn preempt(&self, id: &str, reason: &str) {
        if let Some(requests) = self.attended().get(id) {
            // The first reason is kept.
            let _ = requests.preempt.set(reason.to_owned());
        }
    }

    /// Ids of the jobs that were preempted and still hold their cores.
    pub(super) fn preempted(&self) -> HashSet<String> {
        self.attended()
            .iter()
            .filter(|(_, requests)| requests.preempt.get().is_some())
            .map(|(id, _)| id.clone())
            .collect()
    }

    fn supervisor(&self) -> Supervisor {
        Supervisor {
            settings: self.settings.clone(),
            store: self.store.clone(),
            suspects: self.settings.test_cores_every.map(|_| self.fences.tests.suspects.clone()),
            closing: self.closing.clone(),
            draining: self.draining.clone(),
            wake: self.wake.clone(),
        }
    }

    pub(super) fn run_dir(&self, id: &str) -> RunDir {
        RunDir::new(&self.settings.state_dir, id)
    }

    fn attended(&self) -> MutexGuard<'_, HashMap<String, StopRequests>> {
        self.attended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
