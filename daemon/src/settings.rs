//! Settings of the daemon, resolved once and validated before anything runs.

use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use traind_job_file::{JobFile, Platform};

use crate::access::account::Account;
use crate::access::live::LiveAccess;
use crate::access::roots::Roots;
use crate::host::Host;
use crate::host::plugins::plugin;
use crate::notification::Receiver;
use crate::tls::LiveServer;

/// The settings of one daemon. All paths are absolute.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub state_dir: PathBuf,
    pub socket: PathBuf,
    pub cache_dir: PathBuf,
    /// Size limit of one user's cache of fetched files, tokenized data and executables, in bytes.
    pub cache_bytes_max: u64,
    /// The runner's program.
    pub runner: PathBuf,
    pub host: Host,
    /// How long a runner may take to exit after a stop signal.
    pub grace_period: Duration,
    /// How long a step may take before its runner counts as hung.
    pub hang_timeout: Duration,
    /// How long a job that failed waits for its first restart.
    pub restart_delay: Duration,
    /// Control group below which every job gets its own, if there is one.
    pub cgroup: Option<PathBuf>,
    /// The most cores that the jobs of one user may hold at a time.
    pub cores_per_user: Option<u32>,
    /// The most jobs that one user may have in clusters at a time.
    pub cluster_jobs_per_user: usize,
    /// The access rules.
    pub access: LiveAccess,
    /// Folders and URLs that jobs may read and write.
    pub roots: Roots,
    /// The most memory of a job, in bytes.
    pub memory_per_job: Option<u64>,
    /// Memory of a core, in bytes, if the operator set it.
    pub memory_per_core: Option<u64>,
    /// Group id of the socket; `None` for the daemon's own.
    pub socket_group: Option<u32>,
    pub limits: Limits,
    pub run_as: RunAs,
    /// Network listener beside the socket.
    pub network: Option<Network>,
    /// Address of the web page, if it is served.
    pub web_address: Option<SocketAddr>,
    /// Prices of the host.
    pub prices: Prices,
    /// Limits of the history.
    pub retention: Retention,
    /// Receivers of notifications about all jobs.
    pub receivers: Vec<Receiver>,
    /// How often idle cores are tested by programs whose results are known.
    pub test_cores_every: Option<Duration>,
    /// How many times as long as on the other cores a test may take on a core that is not sick.
    pub slow_core_factor: Option<f64>,
    /// Directory in which tests make runs wait after chosen steps.
    pub test_step_gates: Option<PathBuf>,
    /// Whether processes that tests wait for keep the daemon's priority.
    pub test_keep_priority: bool,
}

/// Limits of the history: a job that has ended is removed if it is beyond either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Retention {
    /// How many of the newest jobs that have ended are kept.
    pub keep_jobs: Option<u64>,
    /// The days for which jobs are kept after their end.
    pub keep_days: Option<u32>,
}

impl Retention {
    pub(crate) fn is_unlimited(self) -> bool {
        self.keep_jobs.is_none() && self.keep_days.is_none()
    }
}

/// Limits on callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Connections of one user that are served at a time.
    pub connections_per_user: usize,
    /// Calls of one user that are served at a time, including streams.
    pub calls_per_user: usize,
    /// Limit on the time until a response begins; streams may take longer.
    pub request_timeout: Duration,
}

/// Prices of all cores of the host for an hour, in any currency.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Prices {
    /// The price of the host.
    pub per_hour: Option<f64>,
    /// The price on demand, for a spot instance.
    pub on_demand_per_hour: Option<f64>,
}

impl Prices {
    /// The prices of a part of the host.
    pub(crate) fn of(self, cores: u32, all: u32) -> Prices {
        let share = f64::from(cores) / f64::from(all.max(1));
        let part = |price: Option<f64>| price.map(|price| price * share);
        Prices { per_hour: part(self.per_hour), on_demand_per_hour: part(self.on_demand_per_hour) }
    }
}

/// The account that jobs run as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RunAs {
    /// The daemon's.
    Daemon,
    /// The submitter's.
    Submitter,
}

impl RunAs {
    /// Returns the account that jobs of a caller with `account` run as; `None` for the daemon's.
    pub(crate) fn account(self, account: Option<Account>) -> Option<Account> {
        let own = Account::own();
        account.filter(|account| self == RunAs::Submitter && account.uid != own.uid)
    }
}

/// The listener for callers from other hosts.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub address: SocketAddr,
    pub tls: Arc<LiveServer>,
    /// Whether tokens identify callers.
    pub tokens: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error(
        "{path} is too long for a socket: {length} bytes, where {SOCKET_PATH_MAX} are allowed; choose a shorter {setting}"
    )]
    SocketPathTooLong { path: PathBuf, length: usize, setting: &'static str },
    #[error(
        "the runner {path} does not exist; build traind-runner beside traind, or name it with --runner"
    )]
    NoRunner { path: PathBuf },
}

/// `sockaddr_un` holds 108 bytes with the NUL.
const SOCKET_PATH_MAX: usize = 107;

/// A path of the length of the longest socket path below the state folder.
const LONGEST_RUNNER_SOCKET: &str = "jobs/0123456789/runner.sock";

impl Settings {
    /// Refuses settings with which no job could run.
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        check_socket(&self.socket, "--socket")?;
        check_socket(&self.state_dir.join(LONGEST_RUNNER_SOCKET), "--state-dir")?;
        if self.runner.is_file() {
            return Ok(());
        }
        Err(SettingsError::NoRunner { path: self.runner.clone() })
    }

    /// Whether calls from the network may use a token.
    pub(crate) fn accepts_tokens(&self) -> bool {
        self.network.as_ref().is_some_and(|network| network.tokens)
    }

    /// The plugin with which a planner compiles for GPUs. None where the planner is fenced in or is another
    /// user's, so that a compiler could not write its files.
    pub(crate) fn compiling_plugin(
        &self,
        job: &JobFile,
        account: Option<Account>,
    ) -> Option<PathBuf> {
        let is_free = self.roots.is_empty() && account.is_none();
        let wanted = is_free && job.resources.platform == Platform::Cuda;
        wanted.then(|| plugin("cuda").ok()?.find(&self.cache_dir)).flatten()
    }

    /// Cache folder for jobs that run as `account`. Users do not share one, since cached
    /// executables are programs.
    pub(crate) fn cache_dir_of(&self, account: Option<Account>) -> PathBuf {
        match account {
            Some(account) => self.cache_dir.join("users").join(account.uid.to_string()),
            None => self.cache_dir.clone(),
        }
    }

    /// Size limit of the cache of jobs of `owner` that run as `account`. A group's limit is one of each
    /// member's own cache: evicting from a cache that users share would be at the expense of others.
    pub(crate) fn cache_bytes_max_of(&self, owner: &str, account: Option<Account>) -> u64 {
        let sharing = self.access.now().sharing();
        let limits = sharing.group_of(owner).map(|group| &group.limits);
        let gib = limits.and_then(|limits| limits.cache_gib).filter(|_| account.is_some());
        gib.map_or(self.cache_bytes_max, |gib| (u64::from(gib) << 30).min(self.cache_bytes_max))
    }

    /// Reloads the access file and the certificates. Invalid files leave them as they are.
    pub(crate) fn reload(&self) -> anyhow::Result<()> {
        self.access.reload()?;
        if let Some(network) = &self.network {
            network.tls.reload()?;
        }
        Ok(())
    }

    pub(crate) fn store_path(&self) -> PathBuf {
        self.state_dir.join("traind.db")
    }

    pub(crate) fn lock_path(&self) -> PathBuf {
        self.state_dir.join("daemon.lock")
    }
}

fn check_socket(path: &Path, setting: &'static str) -> Result<(), SettingsError> {
    let length = path.as_os_str().as_bytes().len();
    if length <= SOCKET_PATH_MAX {
        return Ok(());
    }
    Err(SettingsError::SocketPathTooLong { path: path.to_owned(), length, setting })
}

#[cfg(test)]
impl Settings {
    pub(crate) fn example() -> Settings {
        use crate::access::Access;
        use crate::host::discovery::DevicePaths;
        Settings {
            state_dir: "/nowhere".into(),
            socket: "/run/traind.sock".into(),
            cache_dir: "/tmp".into(),
            cache_bytes_max: 1 << 30,
            runner: std::env::current_exe().unwrap(),
            host: Host::new("cpu", None, &DevicePaths::default()).unwrap(),
            grace_period: Duration::from_secs(1),
            hang_timeout: Duration::from_secs(1),
            restart_delay: Duration::from_secs(1),
            cgroup: None,
            cores_per_user: None,
            cluster_jobs_per_user: 100,
            access: LiveAccess::fixed(Access::open([])),
            roots: Roots::default(),
            memory_per_job: None,
            memory_per_core: None,
            socket_group: None,
            network: None,
            run_as: RunAs::Daemon,
            limits: Limits {
                connections_per_user: 1,
                calls_per_user: 1,
                request_timeout: Duration::from_secs(1),
            },
            web_address: None,
            receivers: Vec::new(),
            prices: Prices::default(),
            retention: Retention::default(),
            test_cores_every: None,
            slow_core_factor: None,
            test_step_gates: None,
            test_keep_priority: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;

    #[test]
    fn a_group_may_limit_the_caches_that_its_members_do_not_share() {
        let yaml = "groups: {a: {members: [ann], limits: {cache_gib: 2}}}";
        let access = LiveAccess::fixed(Access::parse(yaml).unwrap());
        let settings = Settings { access, cache_bytes_max: 10 << 30, ..Settings::example() };
        let own = Some(Account::own());
        assert_eq!(settings.cache_bytes_max_of("ann", own), 2 << 30);
        assert_eq!(settings.cache_bytes_max_of("ann", None), 10 << 30);
        assert_eq!(settings.cache_bytes_max_of("bob", own), 10 << 30);
        let small = Settings { cache_bytes_max: 1 << 30, ..settings };
        assert_eq!(small.cache_bytes_max_of("ann", own), 1 << 30);
    }

    #[test]
    fn a_state_folder_too_deep_for_sockets_is_refused() {
        let deep = PathBuf::from("/").join("x".repeat(90));
        let settings = Settings { state_dir: deep, ..Settings::example() };
        let text = settings.check().unwrap_err().to_string();
        assert!(text.contains("shorter --state-dir"), "{text}");
    }
}
