//! The runner's gRPC service on `runner.sock`: live status, and requests to stop. Everything that
//! must not be lost is an event of the journal instead.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::{Request, Response, Status};
use traind_proto::profile_steps;
use traind_proto::v1::profile_piece::Piece;
use traind_proto::v1::runner_server::{Runner, RunnerServer};
use traind_proto::v1::{
    Communication, CoreUsage, GetStatusRequest, MemoryUsage, ProfilePiece, ProfileRequest,
    RunnerStatus, StopRequest, StopResponse, WatchCoreUsageRequest,
};
use traind_xla::analysis::SentBytes;

use super::{Activity, Stop, StopReason, print_line};
use crate::profile::{self, Recording};

#[derive(Clone, Debug)]
pub(crate) struct RunnerService {
    pub job_id: String,
    pub job_name: String,
    pub attempt: u32,
    pub cores: Vec<u32>,
    pub activity: Activity,
    pub stop: Stop,
}

impl RunnerService {
    /// Serves on a thread of its own until the process ends.
    pub(crate) fn spawn(self, run_dir: &Path) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = listen(&runtime, &run_dir.join("runner.sock"))?;
        std::thread::Builder::new().name("service".to_owned()).spawn(move || {
            let incoming = UnixListenerStream::new(listener);
            let server = tonic::transport::Server::builder()
                .concurrency_limit_per_connection(32)
                .max_concurrent_streams(32)
                .timeout(Duration::from_secs(10))
                .add_service(RunnerServer::new(self))
                .serve_with_incoming(incoming);
            if let Err(error) = runtime.block_on(server) {
                print_line(format_args!("runner service ended: {error}"));
            }
        })?;
        Ok(())
    }
}

fn listen(runtime: &tokio::runtime::Runtime, socket: &Path) -> anyhow::Result<UnixListener> {
    // An earlier attempt of the job may have left its socket behind.
    let _ = std::fs::remove_file(socket);
    let _entered = runtime.enter();
    UnixListener::bind(socket).with_context(|| format!("listen on {}", socket.display()))
}

/// Bytes of a message with a part of a trace, far below the limit of a gRPC message.
const TRACE_BYTES: usize = 1 << 20;
const TERA: f64 = 1e12;

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

fn total_bytes(memory: &MemoryUsage) -> u64 {
    memory.parameters_bytes + memory.optimizer_bytes + memory.temporary_bytes + memory.code_bytes
}

impl Activity {
    /// Counters of the runner's cores.
    pub(crate) fn usages(&self, cores: &[u32]) -> Vec<CoreUsage> {
        let (usage, stages) = (self.usage(), self.stages());
        let of_core = |(place, core): (usize, &u32)| {
            let stage = stages.get(place).copied();
            CoreUsage { core: *core, stage, ..usage }
        };
        cores.iter().enumerate().map(of_core).collect()
    }

    /// Counters that the runner's cores share.
    fn usage(&self) -> CoreUsage {
        let now = self.status();
        CoreUsage {
            core: 0,
            utilization_percent_1s: now.utilization_1s * 100.0,
            utilization_percent_1m: now.utilization_1m * 100.0,
            memory_used_bytes: total_bytes(&now.memory),
            memory_total_bytes: now.memory_total,
            phase: now.phase.into(),
            step: now.step,
            max_steps: now.max_steps,
            tflops: now.work.executed / TERA,
            model_tflops: now.work.model / TERA,
            model_flops_utilization_percent: percent(now.work.model, now.peak_flops),
            memory: Some(now.memory),
            programs_compiled: now.programs_compiled as u32,
            programs_total: now.programs_total as u32,
            stage: None,
            communication: communication(now.work.sent),
        }
    }
}

fn communication(sent: SentBytes) -> Option<Communication> {
    let SentBytes { data, tensor, pipeline, hosts } = sent;
    (sent != SentBytes::default()).then_some(Communication {
        data_bytes_per_second: data,
        tensor_bytes_per_second: tensor,
        pipeline_bytes_per_second: pipeline,
        hosts_bytes_per_second: hosts,
    })
}

impl RunnerService {
    fn usages(&self) -> Vec<CoreUsage> {
        self.activity.usages(&self.cores)
    }

    /// Sends the usage of all cores every `period` until the client disconnects.
    async fn send_usages(self, period: Duration, to: mpsc::Sender<Result<CoreUsage, Status>>) {
        let mut ticks = tokio::time::interval(period);
        loop {
            ticks.tick().await;
            for usage in self.usages() {
                if to.send(Ok(usage)).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Sends a profile once it is recorded, unless training ends before.
async fn send_profile(
    recording: oneshot::Receiver<Recording>,
    job: String,
    cores: Vec<u32>,
    to: mpsc::Sender<Result<ProfilePiece, Status>>,
) {
    let recording = tokio::select! {
        () = to.closed() => return,
        recording = recording => recording,
    };
    let Ok(recording) = recording else {
        let ended = Status::failed_precondition("training ended before a step was recorded");
        let _ = to.send(Err(ended)).await;
        return;
    };
    let written = tokio::task::spawn_blocking(move || {
        let summary = profile::summary(&recording, &cores);
        (summary, profile::trace(&recording, &job, &cores))
    });
    let Ok((summary, trace)) = written.await else {
        let _ = to.send(Err(Status::internal("the trace could not be written"))).await;
        return;
    };
    let parts = trace.chunks(TRACE_BYTES).map(|part| Piece::Trace(part.to_vec()));
    for piece in [Piece::Profile(summary)].into_iter().chain(parts) {
        if to.send(Ok(ProfilePiece { piece: Some(piece) })).await.is_err() {
            return;
        }
    }
}

#[tonic::async_trait]
impl Runner for RunnerService {
    type ProfileStream = ReceiverStream<Result<ProfilePiece, Status>>;
    type WatchCoreUsageStream = ReceiverStream<Result<CoreUsage, Status>>;

    async fn get_status(
        &self,
        request: Request<GetStatusRequest>,
    ) -> Result<Response<RunnerStatus>, Status> {
        if let Some(joules) = request.into_inner().energy_joules {
            self.activity.set_energy(joules);
        }
        let now = self.activity.status();
        Ok(Response::new(RunnerStatus {
            job_id: self.job_id.clone(),
            attempt: self.attempt,
            pid: std::process::id(),
            step: now.step,
            max_steps: now.max_steps,
            phase: now.phase.into(),
            cores: self.usages(),
        }))
    }

    async fn watch_core_usage(
        &self,
        request: Request<WatchCoreUsageRequest>,
    ) -> Result<Response<Self::WatchCoreUsageStream>, Status> {
        let period = match request.into_inner().period_ms {
            0 => 1000,
            period_ms @ 100..=60_000 => period_ms,
            _ => return Err(Status::invalid_argument("period_ms is 0 or 100 to 60000")),
        };
        let (sender, receiver) = mpsc::channel(self.cores.len());
        tokio::spawn(self.clone().send_usages(Duration::from_millis(u64::from(period)), sender));
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn profile(
        &self,
        request: Request<ProfileRequest>,
    ) -> Result<Response<Self::ProfileStream>, Status> {
        let steps = match request.into_inner().steps {
            steps @ 1..=profile_steps::MAX => u64::from(steps),
            _ => {
                let allowed = format!("steps is 1 to {}", profile_steps::MAX);
                return Err(Status::invalid_argument(allowed));
            }
        };
        let requested = self.activity.profiler.request(steps);
        let recording =
            requested.map_err(|refusal| Status::failed_precondition(refusal.to_string()))?;
        let (sender, receiver) = mpsc::channel(1);
        let (job, cores) = (self.job_name.clone(), self.cores.clone());
        tokio::spawn(send_profile(recording, job, cores, sender));
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn stop(&self, request: Request<StopRequest>) -> Result<Response<StopResponse>, Status> {
        print_line(format_args!("asked to stop: {}", request.into_inner().reason));
        self.stop.request(StopReason::Interrupted);
        Ok(Response::new(StopResponse {}))
    }
}
