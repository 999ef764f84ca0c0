//! Status and profiles of a running runner, over the socket in its run folder.

use std::path::PathBuf;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;
use traind_proto::v1::{self, runner_client::RunnerClient};

/// How long to wait for the runner's answer.
const TIMEOUT: Duration = Duration::from_millis(500);
/// The same where a person waits for it.
const PROFILE_TIMEOUT: Duration = Duration::from_secs(10);
/// The runner may be starting, may have ended, or may be too old to be asked.
const NO_RUNNER: &str = "no runner of it serves this host";

/// Returns the status of the runner that serves `socket`, or `None` if no runner serves it or
/// the runner does not answer in time. `energy_joules`: what the job has used so far, if known.
pub(crate) async fn runner_status(
    socket: PathBuf,
    energy_joules: Option<f64>,
) -> Option<v1::RunnerStatus> {
    let answer = async {
        let mut client = RunnerClient::new(connect(socket).await.ok()?);
        Some(client.get_status(v1::GetStatusRequest { energy_joules }).await.ok()?.into_inner())
    };
    tokio::time::timeout(TIMEOUT, answer).await.ok().flatten()
}

/// Asks the runner that serves `socket` to record its next steps. Returns when it has arranged that.
pub(crate) async fn profile(
    socket: PathBuf,
    steps: u32,
) -> Result<Streaming<v1::ProfilePiece>, String> {
    let answer = async {
        let channel = connect(socket).await.map_err(|_| NO_RUNNER.to_owned())?;
        let mut client = RunnerClient::new(channel);
        let answer = client.profile(v1::ProfileRequest { steps }).await;
        Ok(answer.map_err(|status| status.message().to_owned())?.into_inner())
    };
    let answer = tokio::time::timeout(PROFILE_TIMEOUT, answer).await;
    answer.unwrap_or_else(|_| Err("its runner does not answer".to_owned()))
}

async fn connect(socket: PathBuf) -> Result<Channel, tonic::transport::Error> {
    // tonic wants an address; the connector ignores it and opens the socket.
    let connector = service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://runner").connect_with_connector(connector).await
}
