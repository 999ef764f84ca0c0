//! What a daemon is told when it starts, resolved once and refused before anything runs.

use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::access::account::Account;
use crate::access::live::LiveAccess;
use crate::access::roots::Roots;
use crate::host::Host;
use crate::tls::LiveServer;

/// The settings of one daemon. All paths are absolute.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub state_dir: PathBuf,
    pub socket: PathBuf,
    pub cache_dir: PathBuf,
    /// Most bytes that fetched files, tokenized sets and executables take of the cache of one user.
    pub cache_bytes_max: u64,
    /// The program that trains.
    pub runner: PathBuf,
    pub host: Host,
    /// How long a runner may take to end after it was asked to.
    pub grace_period: Duration,
    /// How long a step may take before its runner counts as hung.
    pub hang_timeout: Duration,
    /// How long a job that failed waits for its first restart.
    pub restart_delay: Duration,
    /// Below it every job gets a control group, if there is one.
    pub cgroup: Option<PathBuf>,
    /// Most cores that the jobs of one user hold at a time.
    pub cores_per_user: Option<u32>,
    /// Who may do what.
    pub access: LiveAccess,
    /// Where jobs may read and write.
    pub roots: Roots,
    /// Most memory of a job, in bytes.
    pub memory_per_job: Option<u64>,
    /// Memory of a core, in bytes, where the operator says it.
    pub memory_per_core: Option<u64>,
    /// Group of the socket, by number; the daemon's own without it.
    pub socket_group: Option<u32>,
    /// How much callers may ask for.
    pub limits: Limits,
    /// Whose processes jobs are.
    pub run_as: RunAs,
    /// Served beside the socket.
    pub network: Option<Network>,
    /// Where the web page is served, if it is.
    pub web_address: Option<SocketAddr>,
    /// Directory in which tests make runs wait after chosen steps.
    pub test_step_gates: Option<PathBuf>,
}

/// How much callers may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Connections of one user that are served at a time.
    pub connections_per_user: usize,
    /// Calls of one user that are under way at a time, streams with them.
    pub calls_per_user: usize,
    /// Until a response begins; streams may last.
    pub request_timeout: Duration,
}

/// Whose processes jobs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RunAs {
    /// The daemon's.
    Daemon,
    /// Those of the user who submitted them.
    Submitter,
}

impl RunAs {
    /// The account that jobs of somebody with `account` run as; `None` is the daemon's.
    pub(crate) fn account(self, account: Option<Account>) -> Option<Account> {
        let own = Account::own();
        account.filter(|account| self == RunAs::Submitter && account.uid != own.uid)
    }
}

/// How the daemon is reached from other hosts.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub address: SocketAddr,
    pub tls: Arc<LiveServer>,
    /// Whether a token says who calls.
    pub tokens: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error(
        "{path} is too long for a socket: {length} bytes, of {SOCKET_PATH_MAX} at most; choose a shorter {setting}"
    )]
    SocketPathTooLong { path: PathBuf, length: usize, setting: &'static str },
    #[error(
        "the runner {path} is not there; build traind-runner beside traind, or name it with --runner"
    )]
    NoRunner { path: PathBuf },
}

/// `sockaddr_un` holds 108 bytes with the NUL.
const SOCKET_PATH_MAX: usize = 107;

/// As long as any path below the state folder that is a socket.
const LONGEST_RUNNER_SOCKET: &str = "jobs/0123456789/runner.sock";

impl Settings {
    /// Refuses settings with which no job could ever run.
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        check_socket(&self.socket, "--socket")?;
        check_socket(&self.state_dir.join(LONGEST_RUNNER_SOCKET), "--state-dir")?;
        if self.runner.is_file() {
            return Ok(());
        }
        Err(SettingsError::NoRunner { path: self.runner.clone() })
    }

    /// Whether calls from the network may carry a token.
    pub(crate) fn accepts_tokens(&self) -> bool {
        self.network.as_ref().is_some_and(|network| network.tokens)
    }

    /// Where a job keeps what later ones can use again. Not shared between users: an executable
    /// is a program.
    pub(crate) fn cache_dir_of(&self, account: Option<Account>) -> PathBuf {
        match account {
            Some(account) => self.cache_dir.join("users").join(account.uid.to_string()),
            None => self.cache_dir.clone(),
        }
    }

    /// Reads again what an operator may change meanwhile. What is wrong stays as it was.
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
        use crate::host::discovery::Places;
        Settings {
            state_dir: "/nowhere".into(),
            socket: "/run/traind.sock".into(),
            cache_dir: "/tmp".into(),
            cache_bytes_max: 1 << 30,
            runner: std::env::current_exe().unwrap(),
            host: Host::new("cpu", None, &Places::default()).unwrap(),
            grace_period: Duration::from_secs(1),
            hang_timeout: Duration::from_secs(1),
            restart_delay: Duration::from_secs(1),
            cgroup: None,
            cores_per_user: None,
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
            test_step_gates: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_folder_too_deep_for_sockets_is_refused_at_once() {
        let deep = PathBuf::from("/").join("x".repeat(90));
        let settings = Settings { state_dir: deep, ..Settings::example() };
        let text = settings.check().unwrap_err().to_string();
        assert!(text.contains("shorter --state-dir"), "{text}");
    }
}
