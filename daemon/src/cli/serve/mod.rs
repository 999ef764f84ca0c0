//! `traind serve`: resolves the settings, then builds, runs and drains the daemon.

mod core_testing;
mod listen;
mod options;

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Resource, getrlimit, setrlimit};
use sd_notify::NotifyState;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use super::Global;
use super::exit::Exit;
use super::gc::Keep;
use crate::access::Access;
use crate::access::account::{self, user_name};
use crate::access::live::LiveAccess;
use crate::access::roots::Roots;
use crate::control::daemon::Daemon;
use crate::control::dispatch;
use crate::host::Host;
use crate::host::plugins;
use crate::host::readiness::OPEN_FILES_MIN;
use crate::host::spot;
use crate::interfaces::http::{self, HttpError};
use crate::interfaces::metrics::{self, Calls};
use crate::interfaces::server;
use crate::interfaces::web;
use crate::jobs::store::Store;
use crate::jobs::supervisor::{delegated_cgroup, enable_memory_limits, fence};
use crate::paths;
use crate::settings::{RunAs, Settings};
use core_testing::CoreTesting;
use listen::Listen;
use options::{DeviceArgs, LimitsArgs, NotifyArgs, PriceArgs};

/// Run the daemon
#[derive(clap::Args)]
pub(crate) struct Serve {
    /// Folder of the job store and the jobs' run folders
    /// [default: $TRAIND_STATE_DIR, systemd's state folder, or ~/.local/state/traind]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Folder of plugins, tokenized data and executables
    /// [default: $TRAIND_CACHE_DIR, systemd's cache folder, or ~/.cache/traind]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Size limit of the cache of models, data, tokenized data and compiled programs, in GiB; per
    /// user if jobs run as their submitters. Least recently used entries are evicted, unless a job
    /// uses them
    #[arg(long, value_name = "GIB", default_value_t = 200)]
    cache_limit: u32,
    /// Path of the runner's program [default: traind-runner next to this program]
    #[arg(long, value_name = "PATH")]
    runner: Option<PathBuf>,
    /// Platform of the cores to schedule: cpu, cuda or neuron
    #[arg(long, default_value = "cpu")]
    platform: String,
    /// Number of cores to schedule [default: all that are found]
    #[arg(long, value_name = "N")]
    cores: Option<NonZeroU32>,
    #[command(flatten)]
    devices: DeviceArgs,
    #[command(flatten)]
    core_testing: CoreTesting,
    /// Maximum number of cores that one user's jobs may hold at a time [default: no limit]
    #[arg(long, value_name = "N")]
    cores_per_user: Option<NonZeroU32>,
    /// Maximum number of jobs that one user may have in clusters at a time, waiting there or running
    #[arg(long, value_name = "N", default_value = "100")]
    cluster_jobs_per_user: NonZeroUsize,
    /// Seconds that a runner may take to exit after a stop signal
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    grace_period: u64,
    /// Seconds that a step may take before its runner counts as hung and is killed; six times
    /// as long before the first step and while a program is compiled
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    hang_timeout: u64,
    /// Seconds before a failed job is restarted, if its job file requests that
    /// (resources.max_restarts); doubles with each restart, up to 5 minutes
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    restart_delay: u64,
    /// Control group (v2) below which every job gets its own
    /// [default: the daemon's, if it was delegated]
    #[arg(long, value_name = "DIR")]
    cgroup: Option<PathBuf>,
    /// File that sets the roles of users: viewer, submitter or admin [default: root and the
    /// daemon's user are admins, others who can open the socket are submitters]
    #[arg(long, value_name = "FILE")]
    access: Option<PathBuf>,
    /// Serve metrics for Prometheus at http://ADDRESS/metrics, on a loopback address such as
    /// 127.0.0.1:9400 [default: not served]
    #[arg(long, value_name = "ADDRESS", value_parser = crate::cli::address::address)]
    metrics_address: Option<SocketAddr>,
    /// Show the names, owners and metrics of all jobs to every user of this host who reads the metrics
    /// [default: only to those with a token, by their role]
    #[arg(long, requires = "metrics_address")]
    open_metrics: bool,
    /// Folder below which jobs may read and write, enforced by Landlock; may be given several times
    /// [default: no restriction]
    #[arg(long, value_name = "DIR")]
    allow_root: Vec<PathBuf>,
    /// URL below which jobs may read, such as s3://BUCKET/FOLDER; may be given several times
    /// [default: none with --allow-root, otherwise no restriction]
    #[arg(long, value_name = "URL")]
    allow_url: Vec<String>,
    /// Memory limit of a job, in GiB [default: no limit]
    #[arg(long, value_name = "GIB")]
    memory_per_job: Option<NonZeroU32>,
    /// Memory of a core, in GiB: jobs that need more are refused [default: for a CPU, the job's
    /// share of the host's or of --memory-per-job; otherwise not known]
    #[arg(long, value_name = "GIB")]
    memory_per_core: Option<NonZeroU32>,
    /// The account that jobs run as: the daemon's or the submitter's, which requires root or the
    /// capabilities that `scripts/systemd` lists [default: submitter if the daemon can switch
    /// users, otherwise daemon]
    #[arg(long, value_enum)]
    run_as: Option<RunAs>,
    /// Group whose members may use the socket [default: the daemon's own]
    #[arg(long, value_name = "GROUP")]
    socket_group: Option<String>,
    #[command(flatten)]
    keep: Keep,
    /// On SIGTERM, leave the jobs running, or drain: save checkpoints and stop them first
    #[arg(long, value_enum, default_value_t = OnSigterm::Leave)]
    on_sigterm: OnSigterm,
    /// Drain when EC2 announces that it will reclaim this instance
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = spot::BASE_URL)]
    ec2_notices: Option<String>,
    /// Folder with which tests make runs wait after selected steps
    #[arg(long, value_name = "DIR", hide = true)]
    test_step_gates: Option<PathBuf>,
    /// Lets preparations and generated texts keep the daemon's priority, for tests on a busy machine
    #[arg(long, hide = true)]
    test_keep_priority: bool,
    // A heading holds for all options below it.
    #[command(flatten, next_help_heading = "Limits on callers")]
    limits: LimitsArgs,
    #[command(flatten, next_help_heading = "Network options")]
    listen: Listen,
    /// Serve the web page at http://ADDRESS, on a loopback address such as 127.0.0.1:9401; log in
    /// with `traind web` [default: not served]
    #[arg(long, value_name = "ADDRESS", value_parser = crate::cli::address::address)]
    web_address: Option<SocketAddr>,
    #[command(flatten, next_help_heading = "Notification options")]
    notify: NotifyArgs,
    #[command(flatten, next_help_heading = "Prices")]
    prices: PriceArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OnSigterm {
    Leave,
    Drain,
}

impl Serve {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        log_to_stderr();
        raise_open_files();
        let (on_sigterm, ec2_notices) = (self.on_sigterm, self.ec2_notices.clone());
        let open_metrics = self.open_metrics;
        let metrics = bind("--metrics-address", self.metrics_address).await?;
        let web = bind("--web-address", self.web_address).await?;
        let mut settings = self.settings(global)?;
        settings.web_address = web.as_ref().map(TcpListener::local_addr).transpose()?;
        warn_of_root_jobs(&settings);
        limit_memory_of_jobs(&settings);
        let daemon = Daemon::open(settings)?;
        let calls = Arc::new(Calls::default());
        dispatch::start(&daemon).await.context("attach to the jobs of an earlier daemon")?;
        tokio::spawn(close_on_signal(daemon.clone(), on_sigterm)?);
        tokio::spawn(reload_on_signal(daemon.clone())?);
        let serve_http = |what: &str, listener: TcpListener, router| -> io::Result<()> {
            tracing::info!(address = %listener.local_addr()?, "serve {what}");
            tokio::spawn(http::serve(listener, router, daemon.closing.clone()));
            Ok(())
        };
        if let Some(listener) = metrics {
            let router = metrics::router(daemon.clone(), calls.clone(), open_metrics);
            serve_http("metrics", listener, router)?;
        }
        if let Some(listener) = web {
            serve_http("the web page", listener, web::router(daemon.clone()))?;
        }
        if let Some(base_url) = ec2_notices {
            tokio::spawn(drain_on_notice(daemon.clone(), base_url));
        }
        let served = server::serve(daemon.clone(), calls, || announce(&daemon)).await;
        daemon.close().await;
        let jobs = if daemon.drained.is_cancelled() { "wait in the queue" } else { "keep running" };
        tracing::info!("stopped; jobs {jobs}");
        served?;
        Ok(Exit::Done)
    }

    fn settings(self, global: Global) -> anyhow::Result<Settings> {
        traind_choices::check_switches().map_err(anyhow::Error::msg)?;
        plugins::plugin(&self.platform)?;
        let no_home = |what: &str| format!("no {what} folder: HOME is not set; set --{what}-dir");
        let state_dir =
            self.state_dir.or_else(paths::state_dir).with_context(|| no_home("state"))?;
        let cache_dir =
            self.cache_dir.or_else(paths::cache_dir).with_context(|| no_home("cache"))?;
        let socket = global.socket.unwrap_or_else(|| paths::server_socket(&state_dir));
        let runner = match self.runner {
            Some(runner) => runner,
            None => runner_beside_this_program()?,
        };
        let network = self.listen.resolve(self.access.is_some(), !self.allow_root.is_empty())?;
        if !self.allow_root.is_empty() {
            fence::check()?;
        }
        let access = match &self.access {
            Some(path) => LiveAccess::load(path)?,
            None => {
                let admins = [0, rustix::process::getuid().as_raw()].map(user_name);
                LiveAccess::fixed(Access::open(admins))
            }
        };
        let run_as = run_as(self.run_as)?;
        Ok(Settings {
            run_as,
            limits: self.limits.resolve(),
            state_dir: absolute(state_dir)?,
            socket: absolute(socket)?,
            cache_dir: absolute(cache_dir)?,
            cache_bytes_max: u64::from(self.cache_limit) << 30,
            runner: absolute(runner)?,
            host: Host::new(&self.platform, self.cores, &self.devices.resolve(&self.platform)?)?,
            grace_period: Duration::from_secs(self.grace_period),
            hang_timeout: Duration::from_secs(self.hang_timeout),
            restart_delay: Duration::from_secs(self.restart_delay),
            access,
            roots: Roots::open(&self.allow_root, &self.allow_url)?,
            memory_per_job: self.memory_per_job.map(|gib| u64::from(gib.get()) << 30),
            memory_per_core: self.memory_per_core.map(|gib| u64::from(gib.get()) << 30),
            socket_group: self.socket_group.as_deref().map(group_id).transpose()?,
            network,
            cores_per_user: self.cores_per_user.map(NonZeroU32::get),
            cluster_jobs_per_user: self.cluster_jobs_per_user.get(),
            web_address: None,
            test_step_gates: self.test_step_gates,
            test_keep_priority: self.test_keep_priority,
            receivers: self.notify.resolve()?,
            prices: self.prices.resolve(),
            slow_core_factor: self.core_testing.slow_core_factor(),
            test_cores_every: self.core_testing.every(&self.platform),
            retention: self.keep.retention(),
            cgroup: self.cgroup.or_else(delegated_cgroup),
        })
    }
}

fn run_as(wanted: Option<RunAs>) -> anyhow::Result<RunAs> {
    match (wanted, account::may_switch()) {
        (Some(RunAs::Submitter), false) => bail!(
            "--run-as submitter requires root, or CAP_SETUID, CAP_SETGID, CAP_CHOWN, \
             CAP_DAC_OVERRIDE and CAP_KILL"
        ),
        (None, false) => Ok(RunAs::Daemon),
        (wanted, _) => Ok(wanted.unwrap_or(RunAs::Submitter)),
    }
}

/// Warns if jobs of callers from the network run as root, or are refused for lack of an account.
fn warn_of_root_jobs(settings: &Settings) {
    if settings.network.is_none() || !rustix::process::getuid().is_root() {
        return;
    }
    let lacks_accounts = settings.access.now().leaves_callers_without_account();
    match settings.run_as {
        RunAs::Daemon => tracing::warn!(
            "jobs of callers from the network run as root: start the daemon as another user, or \
             with --run-as submitter"
        ),
        RunAs::Submitter if lacks_accounts => tracing::warn!(
            "callers from the network without an account cannot submit jobs: set accounts or \
             default_account in the access file"
        ),
        RunAs::Submitter => {}
    }
}

/// Enables the memory limit for all processes of a job together, not only for each.
fn limit_memory_of_jobs(settings: &Settings) {
    let Some(cgroup) = settings.cgroup.as_ref().filter(|_| settings.memory_per_job.is_some())
    else {
        return;
    };
    if let Err(error) = enable_memory_limits(cgroup) {
        tracing::warn!(
            cgroup = %cgroup.display(), %error,
            "--memory-per-job applies to each process of a job, not to all together: limiting their \
             control group requires a delegated group without processes (systemd 254 and \
             DelegateSubgroup=)"
        );
    }
}

async fn bind(
    setting: &'static str,
    address: Option<SocketAddr>,
) -> Result<Option<TcpListener>, HttpError> {
    match address {
        Some(address) => http::bind(setting, address).await.map(Some),
        None => Ok(None),
    }
}

/// Raises the limit on open files: each client needs one, and the default is often 1024.
fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "raise the number of open files");
    }
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if allowed < OPEN_FILES_MIN {
        tracing::warn!(
            "at most {allowed} files may be open, which a few hundred clients exhaust: set \
             LimitNOFILE={OPEN_FILES_MIN} in the unit, or `ulimit -Hn {OPEN_FILES_MIN}`"
        );
    }
}

fn group_id(name: &str) -> anyhow::Result<u32> {
    let groups = std::fs::read_to_string("/etc/group").context("read /etc/group")?;
    let fields = |line: &str| -> Option<u32> {
        let mut fields = line.split(':');
        if fields.next()? == name { fields.nth(1)?.parse().ok() } else { None }
    };
    groups.lines().find_map(fields).with_context(|| format!("there is no group {name}"))
}

pub(in crate::cli) fn runner_beside_this_program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("find this program")?;
    Ok(own.with_file_name("traind-runner"))
}

fn absolute(path: PathBuf) -> anyhow::Result<PathBuf> {
    std::path::absolute(&path).with_context(|| format!("resolve {}", path.display()))
}

fn log_to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let colored = std::io::stderr().is_terminal();
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colored);
    // Reporting a failed write to stderr on stderr would panic, and a full disk must not end a task.
    let subscriber = subscriber.log_internal_errors(false);
    subscriber.with_writer(std::io::stderr).init();
}

/// Notifies systemd that the daemon is ready, and feeds its watchdog.
fn announce(daemon: &Arc<Daemon>) {
    let Settings { socket, host, .. } = &*daemon.settings;
    tracing::info!(socket = %socket.display(), platform = host.platform, cores = host.core_count(), "ready");
    notify(NotifyState::Ready);
    if let Some(limit) = sd_notify::watchdog_enabled() {
        tokio::spawn(feed_watchdog(daemon.clone(), limit / 2));
    }
}

/// Feeds the watchdog as long as the store answers.
async fn feed_watchdog(daemon: Arc<Daemon>, period: Duration) {
    let mut ticks = tokio::time::interval(period);
    loop {
        ticks.tick().await;
        match daemon.store.run(Store::ping).await {
            Ok(()) => notify(NotifyState::Watchdog),
            Err(error) => tracing::error!(%error, "feed the watchdog"),
        }
    }
}

/// Closes the daemon on SIGTERM or SIGINT. A second signal ends a drain and leaves the remaining
/// jobs running.
fn close_on_signal(
    daemon: Arc<Daemon>,
    on_sigterm: OnSigterm,
) -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("handle SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("handle SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => if on_sigterm == OnSigterm::Drain {
                notify(NotifyState::Stopping);
                daemon.drain("SIGTERM");
                tokio::select! {
                    () = daemon.closing.cancelled() => {}
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            },
            _ = interrupt.recv() => {}
        }
        notify(NotifyState::Stopping);
        daemon.closing.cancel();
    })
}

/// Drains on a notice of EC2, which reclaims the instance minutes later.
async fn drain_on_notice(daemon: Arc<Daemon>, base_url: String) {
    if let Some(notice) = daemon.closing.run_until_cancelled(spot::notice(base_url)).await {
        daemon.drain(&notice);
    }
}

/// Reloads the access file and the certificates on SIGHUP, without disturbing calls or jobs.
fn reload_on_signal(daemon: Arc<Daemon>) -> anyhow::Result<impl Future<Output = ()>> {
    let mut hangup = signal(SignalKind::hangup()).context("handle SIGHUP")?;
    Ok(async move {
        while hangup.recv().await.is_some() {
            match daemon.reload() {
                Ok(()) => tracing::info!("reloaded the access file and the certificates"),
                Err(error) => {
                    tracing::error!(
                        error = format!("{error:#}"),
                        "reload; keeping the previous access file and certificates"
                    )
                }
            }
        }
    })
}

/// Notifies systemd; does nothing without systemd.
fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "notify systemd");
    }
}
