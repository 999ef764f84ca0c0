//! The runner's gRPC service on `runner.sock`: what the daemon asks of a
//! living runner. What must not be lost goes through the event log instead.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::{Request, Response, Status};
use traind_proto::v1::runner_server::{Runner, RunnerServer};
use traind_proto::v1::{
    CoreUsage, GetStatusRequest, MemoryUsage, RunnerStatus, StopRequest, StopResponse,
    WatchCoreUsageRequest,
};

use super::{Activity, Context, Stop, StopReason, say};

/// What the service needs to know of the run.
#[derive(Clone, Debug)]
struct RunnerService {
    job_id: String,
    attempt: u32,
    cores: Vec<u32>,
    activity: Activity,
    stop: Stop,
}

/// Serves on a thread of its own until the process ends.
pub(crate) fn serve(context: &Context) -> anyhow::Result<()> {
    let service = RunnerService {
        job_id: context.spec.job_id.clone(),
        attempt: context.spec.attempt,
        cores: context.spec.cores.clone(),
        activity: context.activity.clone(),
        stop: context.stop.clone(),
    };
    let socket = context.run_dir.join("runner.sock");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = listen(&runtime, &socket)?;
    std::thread::Builder::new().name("service".to_owned()).spawn(move || {
        let incoming = UnixListenerStream::new(listener);
        let server = tonic::transport::Server::builder()
            .concurrency_limit_per_connection(32)
            .max_concurrent_streams(32)
            .timeout(Duration::from_secs(10))
            .add_service(RunnerServer::new(service))
            .serve_with_incoming(incoming);
        if let Err(error) = runtime.block_on(server) {
            say(format_args!("runner service ended: {error}"));
        }
    })?;
    Ok(())
}

fn listen(runtime: &tokio::runtime::Runtime, socket: &Path) -> anyhow::Result<UnixListener> {
    // An earlier attempt of the same job may have left its socket behind.
    let _ = std::fs::remove_file(socket);
    let _entered = runtime.enter();
    UnixListener::bind(socket).with_context(|| format!("listen on {}", socket.display()))
}

const TERA: f64 = 1e12;

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

fn total_bytes(memory: &MemoryUsage) -> u64 {
    memory.parameters_bytes + memory.optimizer_bytes + memory.temporary_bytes + memory.code_bytes
}

impl RunnerService {
    fn usages(&self) -> Vec<CoreUsage> {
        let now = self.activity.snapshot();
        let usage = |&core| CoreUsage {
            core,
            utilization_percent_1s: now.utilization_1s * 100.0,
            utilization_percent_1m: now.utilization_1m * 100.0,
            memory_used_bytes: total_bytes(&now.memory),
            memory_total_bytes: now.memory_total,
            phase: now.phase.into(),
            step: now.step,
            max_steps: now.max_steps,
            tflops: now.work.executed / TERA,
            model_tflops: now.work.model / TERA,
            model_flops_utilization_percent: percent(now.work.model, now.peak),
            memory: Some(now.memory),
        };
        self.cores.iter().map(usage).collect()
    }

    /// Ends when the client has left.
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

#[tonic::async_trait]
impl Runner for RunnerService {
    type WatchCoreUsageStream = ReceiverStream<Result<CoreUsage, Status>>;

    async fn get_status(
        &self,
        _request: Request<GetStatusRequest>,
    ) -> Result<Response<RunnerStatus>, Status> {
        let now = self.activity.snapshot();
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

    async fn stop(&self, request: Request<StopRequest>) -> Result<Response<StopResponse>, Status> {
        say(format_args!("asked to stop: {}", request.into_inner().reason));
        self.stop.request(StopReason::Interrupted);
        Ok(Response::new(StopResponse {}))
    }
}
