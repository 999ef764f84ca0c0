//! Serves the runner's gRPC service in place of a script.

use std::sync::{Arc, Mutex};

use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};
use traind_proto::v1::runner_server::{Runner, RunnerServer};
use traind_proto::v1::{self, CoreUsage};

use crate::support::host::Host;

/// The energy in the daemon's latest request.
#[derive(Clone, Default)]
pub(crate) struct ReportedEnergy(Arc<Mutex<Option<f64>>>);

impl ReportedEnergy {
    pub(crate) fn joules(&self) -> Option<f64> {
        *self.0.lock().unwrap()
    }
}

/// Serves `usage` on the socket of a job's runner until the test ends.
pub(crate) fn answer_as_runner(host: &Host, job_id: &str, usage: CoreUsage) -> ReportedEnergy {
    let energy = ReportedEnergy::default();
    let listener = UnixListener::bind(host.run_dir(job_id).join("runner.sock")).unwrap();
    let server = tonic::transport::Server::builder()
        .add_service(RunnerServer::new(Answers { usage, energy: energy.clone() }))
        .serve_with_incoming(UnixListenerStream::new(listener));
    tokio::spawn(server);
    energy
}

/// Answers with the usage of one core.
struct Answers {
    usage: CoreUsage,
    energy: ReportedEnergy,
}

#[tonic::async_trait]
impl Runner for Answers {
    type ProfileStream = tokio_stream::Empty<Result<v1::ProfilePiece, Status>>;
    type WatchCoreUsageStream = tokio_stream::Empty<Result<CoreUsage, Status>>;

    async fn get_status(
        &self,
        request: Request<v1::GetStatusRequest>,
    ) -> Result<Response<v1::RunnerStatus>, Status> {
        if let Some(joules) = request.into_inner().energy_joules {
            *self.energy.0.lock().unwrap() = Some(joules);
        }
        Ok(Response::new(v1::RunnerStatus { cores: vec![self.usage], ..Default::default() }))
    }

    async fn watch_core_usage(
        &self,
        _: Request<v1::WatchCoreUsageRequest>,
    ) -> Result<Response<Self::WatchCoreUsageStream>, Status> {
        Ok(Response::new(tokio_stream::empty()))
    }

    async fn profile(
        &self,
        _: Request<v1::ProfileRequest>,
    ) -> Result<Response<Self::ProfileStream>, Status> {
        Ok(Response::new(tokio_stream::empty()))
    }

    async fn stop(
        &self,
        _: Request<v1::StopRequest>,
    ) -> Result<Response<v1::StopResponse>, Status> {
        Ok(Response::new(v1::StopResponse {}))
    }
}
