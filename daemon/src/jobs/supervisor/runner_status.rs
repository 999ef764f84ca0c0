//! Status of a running runner, over the socket in its run folder.

use std::path::PathBuf;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;
use traind_proto::v1::{self, runner_client::RunnerClient};

/// How long to wait for the runner's answer.
const TIMEOUT: Duration = Duration::from_millis(500);

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

async fn connect(socket: PathBuf) -> Result<Channel, tonic::transport::Error> {
    // tonic wants an address; the connector ignores it and opens the socket.
    let connector = service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://runner").connect_with_connector(connector).await
}
