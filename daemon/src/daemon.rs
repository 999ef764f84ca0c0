//! The control plane: owns the store, decides who runs, and attends every runner.

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use traind_proto::v1;

use crate::access::Caller;
use crate::admission::{self, Submission};
use crate::board::Board;
use crate::dispatch;
use crate::error::Error;
use crate::lock::{LockError, StateLock};
use crate::metrics::Calls;
use crate::planner::{self, Plan, Planner};
use crate::queue::SharedQueue;
use crate::record;
use crate::settings::{RunAs, Settings, SettingsError};
use crate::state::JobState;
use crate::store::{Job, Resolved, Store, StoreError};
use crate::supervisor::{self, Begin, RunDir, Wishes};
use crate::tokens::Tokens;
use crate::web::Logins;

/// How long the daemon's own tasks may take to end. Runners are not among them.
const CLOSE_DEADLINE: Duration = Duration::from_secs(5);

/// How often to look whether the last runner has ended.
const DRAIN_PERIOD: Duration = Duration::from_millis(100);

/// The daemon without its sockets. Shared by all RPCs and attendants.
pub(crate) struct Daemon {
    pub settings: Settings,
    pub store: Store,
    pub tokens: Tokens,
    pub queue: SharedQueue,
    pub planner: Planner,
    /// Set off whenever a job or core may have become available.
    pub(crate) wake: Notify,
    /// Cancelled when the daemon leaves; jobs go on.
    pub closing: CancellationToken,
    /// Cancelled when all runners are to stop, so that their jobs can go on elsewhere or later.
    pub draining: CancellationToken,
    /// Cancelled when they have.
    pub drained: CancellationToken,
    /// By job id: what is wanted of its runner.
    attendants: Mutex<HashMap<String, Wishes>>,
    tasks: TaskTracker,
    board: Board,
    /// The calls that were answered, for who measures the daemon itself.
    pub calls: Arc<Calls>,
    /// Who uses the web page.
    pub logins: Logins,
    _lock: StateLock,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("create {path}: {source}", path = .path.display())]
    StateDir { path: std::path::PathBuf, source: std::io::Error },
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Users get to the folders of their own jobs, and see no others beside them.
fn let_users_through(state_dir: &Path) -> io::Result<()> {
    let jobs = state_dir.join("jobs");
    DirBuilder::new().recursive(true).create(&jobs)?;
    for folder in [state_dir, &jobs] {
        fs::set_permissions(folder, Permissions::from_mode(0o711))?;
    }
    Ok(())
}

impl Daemon {
    /// Takes the state folder for itself and opens the store in it.
    pub(crate) fn open(settings: Settings) -> Result<Arc<Daemon>, OpenError> {
        settings.check()?;
        let path = &settings.state_dir;
        let created = DirBuilder::new().recursive(true).mode(0o700).create(path);
        created.map_err(|source| OpenError::StateDir { path: path.clone(), source })?;
        if settings.run_as == RunAs::Submitter {
            let opened = let_users_through(path);
            opened.map_err(|source| OpenError::StateDir { path: path.clone(), source })?;
        }
        let lock = StateLock::acquire(&settings.lock_path())?;
        record::refuse_lost_store(path, &settings.store_path())?;
        let store = Store::open(&settings.store_path())?;
        let tokens = Tokens::new(store.tokens()?);
        Ok(Arc::new(Daemon {
            settings,
            store,
            tokens,
            queue: SharedQueue::default(),
            planner: Planner::default(),
            wake: Notify::new(),
            closing: CancellationToken::new(),
            draining: CancellationToken::new(),
            drained: CancellationToken::new(),
            attendants: Mutex::default(),
            tasks: TaskTracker::new(),
            board: Board::default(),
            calls: Arc::default(),
            logins: Logins::default(),
            _lock: lock,
        }))
    }

    /// Finds the runners of an earlier daemon again and begins to schedule.
    pub(crate) async fn start(self: &Arc<Daemon>) -> Result<(), StoreError> {
        let unfinished = self.store.run(Store::unfinished).await?;
        for job in unfinished.into_iter().filter(|job| job.state.is_active()) {
            tracing::info!(job = job.id, state = %job.state, "attach again");
            self.attend(job, Begin::Attach);
        }
        self.tasks.spawn(dispatch::run(self.clone()));
        self.wake.notify_one();
        Ok(())
    }

    /// Accepts a job, or returns the one that the same request made before.
    pub(crate) async fn create(self: &Arc<Daemon>, submission: Submission) -> Result<Job, Error> {
        let (settings, daemon) = (self.settings.clone(), self.clone());
        let job = self
            .store
            .run(move |store| -> Result<Job, Error> {
                if let Some(job) = admission::repeated(store, &submission)? {
                    return Ok(job);
                }
                let (mut new, job) = admission::admit(&submission, &settings)?;
                admission::resolve_after(store, &mut new)?;
                match daemon.planner.plan(&settings, &job, new.run_as, false) {
                    Ok(plan) => planner::refuse_misfit(&plan, &job)?,
                    // Its runner says better what is wrong with the model.
                    Err(error) => tracing::debug!(%error, "plan a job"),
                }
                let job = store.create(&new)?;
                if job.id != new.id {
                    // The same request came in twice at once, and the other one made the job.
                    return Ok(job);
                }
                // It may start while its record is written.
                daemon.wake.notify_one();
                let run_dir = RunDir::new(&settings.state_dir, &job.id);
                // The store has the job; the record is for the day on which it is lost.
                if let Err(error) = record::write(&run_dir, &new) {
                    tracing::warn!(job = job.id, %error, "write the job's record");
                }
                Ok(job)
            })
            .await?;
        self.get(&job.id, None).await
    }

    /// What a job would take, and whether this host has it.
    pub(crate) async fn plan(self: &Arc<Daemon>, submission: Submission) -> Result<Plan, Error> {
        let daemon = self.clone();
        let work = move || -> Result<Plan, Error> {
            let (new, job) = admission::admit(&submission, &daemon.settings)?;
            let plan = daemon.planner.plan(&daemon.settings, &job, new.run_as, true)?;
            planner::refuse_misfit(&plan, &job)?;
            Ok(plan)
        };
        self.store.run(move |_| work()).await
    }

    /// The job meant by an id, its beginning, or a name, among those of one owner or all.
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

    /// What every core does now, by index.
    pub(crate) async fn cores(&self) -> Result<Vec<v1::Core>, Error> {
        self.board.read(self).await
    }

    /// Asks for the end of a job.
    pub(crate) async fn cancel(&self, reference: &str, by: &Caller) -> Result<Job, Error> {
        let id = self.get(reference, by.scope()).await?.id;
        let (wanted, reason) = (id.clone(), format!("cancelled by {}", by.user));
        let run_dir = RunDir::new(&self.settings.state_dir, &id);
        let cancel = move |store: &Store| {
            let job = store.cancel(&wanted, &reason)?;
            if let Err(error) = record::cancel(&run_dir) {
                tracing::warn!(job = job.id, %error, "write that the job was cancelled");
            }
            Ok::<_, StoreError>(job)
        };
        let job = self.store.run(cancel).await?;
        if job.state == JobState::Cancelling {
            self.press(&id);
        }
        self.wake.notify_one();
        self.get(&id, None).await
    }

    /// Stops all runners with checkpoints and then ends the daemon. Returns at once.
    pub(crate) fn drain(self: &Arc<Daemon>, reason: &str) {
        if self.draining.is_cancelled() {
            return;
        }
        tracing::info!(reason, running = self.attended(), "drain");
        self.draining.cancel();
        let daemon = self.clone();
        tokio::spawn(async move {
            while daemon.attended() > 0 {
                tokio::time::sleep(DRAIN_PERIOD).await;
            }
            // A daemon that closes for another reason attends to nobody either.
            if !daemon.closing.is_cancelled() {
                daemon.drained.cancel();
                daemon.closing.cancel();
            }
        });
    }

    /// How many runners there are.
    pub(crate) fn attended(&self) -> usize {
        self.attendants().len()
    }

    /// Ends the daemon's own work. Runners go on, and a later daemon finds them again.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        if tokio::time::timeout(CLOSE_DEADLINE, self.tasks.wait()).await.is_err() {
            tracing::warn!("some tasks did not end in time");
        }
    }

    /// Follows a job's runner from here to its end.
    pub(crate) fn attend(self: &Arc<Daemon>, job: Job, begin: Begin) {
        let wishes = Wishes::default();
        if job.state == JobState::Cancelling {
            wishes.end.cancel();
        }
        self.attendants().insert(job.id.clone(), wishes.clone());
        let daemon = self.clone();
        self.tasks.spawn(async move {
            let id = job.id.clone();
            supervisor::attend(daemon.clone(), job, begin, wishes).await;
            daemon.attendants().remove(&id);
            daemon.wake.notify_one();
        });
    }

    fn press(&self, id: &str) {
        if let Some(wishes) = self.attendants().get(id) {
            wishes.end.cancel();
        }
    }

    /// Takes a job's cores away; it goes on from a checkpoint when its turn comes again.
    pub(crate) fn preempt(&self, id: &str, reason: &str) {
        if let Some(wishes) = self.attendants().get(id) {
            // The first reason stays.
            let _ = wishes.leave.set(reason.to_owned());
        }
    }

    /// Jobs that were told to make room and have not done so yet.
    pub(crate) fn leaving(&self) -> HashSet<String> {
        let attendants = self.attendants();
        let leaving = attendants.iter().filter(|(_, wishes)| wishes.leave.get().is_some());
        leaving.map(|(id, _)| id.clone()).collect()
    }

    fn attendants(&self) -> MutexGuard<'_, HashMap<String, Wishes>> {
        self.attendants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
