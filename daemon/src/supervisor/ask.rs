//! Asking a living runner what it does.

use std::path::PathBuf;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;
use traind_proto::v1::{self, runner_client::RunnerClient};

/// A runner that takes longer does not answer.
const TIMEOUT: Duration = Duration::from_millis(500);

/// What the runner behind `socket` does now; `None` for one that does not serve yet, does
/// not serve any more, or does not answer.
pub(crate) async fn ask(socket: PathBuf) -> Option<v1::RunnerStatus> {
    let answer = async {
        let mut client = RunnerClient::new(connect(socket).await.ok()?);
        Some(client.get_status(v1::GetStatusRequest {}).await.ok()?.into_inner())
    };
    tokio::time::timeout(TIMEOUT, answer).await.ok().flatten()
}

async fn connect(socket: PathBuf) -> Result<Channel, tonic::transport::Error> {
    // The address is not used: the connector knows the socket.
    let connector = service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://runner").connect_with_connector(connector).await
}
