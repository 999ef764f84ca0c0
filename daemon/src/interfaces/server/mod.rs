//! The gRPC server on the daemon's unix socket and, if configured, on the network: its limits and
//! services.

mod connections;
pub(crate) mod guard;
mod lateness;
pub(crate) mod quota;
pub(crate) mod services;
mod stream;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tonic::transport::Server;
use traind_proto::v1;

use crate::control::daemon::Daemon;
use crate::control::generator::GENERATION_TIMEOUT;
use crate::control::planner::SEARCH_TIMEOUT;
use crate::interfaces::metrics::Calls;
use crate::settings::Network;
use crate::tls::LiveServer;
use connections::socket::SocketError;
use connections::{incoming, socket};
use guard::{layer, observe};
use services::{admin, cores, jobs, plugins, tokens, web};

/// The largest job file.
pub(crate) const JOB_FILE_BYTES_MAX: usize = 1024 * 1024;
/// Bounds the job file with what is beside it; all other requests are small.
const REQUEST_BYTES_MAX: usize = JOB_FILE_BYTES_MAX + 64 * 1024;
/// Bounds a page of jobs, or a job with its job file.
const RESPONSE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of a connection, and of each of its calls, that the daemon has received and not read yet. The least that
/// HTTP/2 has: requests are small, and a user may have a thousand connections.
const WINDOW_BYTES: u32 = 65_535;
const STREAMS_PER_CONNECTION_MAX: u32 = 128;
const REQUESTS_PER_CONNECTION_MAX: usize = 64;
const HEADER_LIST_BYTES_MAX: u32 = 16 * 1024;
const PENDING_RESETS_MAX: usize = 32;
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long calls may continue after the daemon starts to close.
const DRAIN_DEADLINE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error("listen on {address}: {source}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("serve: {0}")]
    Transport(#[from] tonic::transport::Error),
    #[error("describe the services: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// Creates a service with limits on message sizes. The generated types share no trait for them.
macro_rules! limited {
    ($server:ty, $service:expr) => {
        <$server>::new($service)
            .max_decoding_message_size(REQUEST_BYTES_MAX)
            .max_encoding_message_size(RESPONSE_BYTES_MAX)
    };
}

/// Serves until the daemon closes. `ready` is called once the socket accepts calls.
pub(crate) async fn serve(
    daemon: Arc<Daemon>,
    calls: Arc<Calls>,
    ready: impl FnOnce(),
) -> Result<(), ServeError> {
    let path = daemon.settings.socket.clone();
    let listener = socket::bind(&path, daemon.settings.socket_group)?;
    let network = match &daemon.settings.network {
        Some(network) => Some(listen(network).await?),
        None => None,
    };
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<v1::jobs_server::JobsServer<jobs::Jobs>>().await;
    health.set_serving::<v1::cores_server::CoresServer<cores::Cores>>().await;
    health.set_serving::<v1::plugins_server::PluginsServer<plugins::Plugins>>().await;
    health.set_serving::<v1::admin_server::AdminServer<admin::Admin>>().await;
    health.set_serving::<v1::tokens_server::TokensServer<tokens::Tokens>>().await;
    health.set_serving::<v1::web_server::WebServer<web::Web>>().await;

    let closing = daemon.closing.clone();
    let limits = daemon.settings.limits;
    let longest = limits.request_timeout.max(SEARCH_TIMEOUT).max(GENERATION_TIMEOUT);
    let served = builder(longest)
        // Outermost, so that refused calls count too.
        .layer(observe::Observe::new(calls.clone()))
        .layer(layer::Guard::new(daemon.clone(), calls))
        .add_service(health_service)
        .add_service(reflection()?)
        .add_service(limited!(v1::admin_server::AdminServer<_>, admin::Admin::new(daemon.clone())))
        .add_service(limited!(v1::jobs_server::JobsServer<_>, jobs::Jobs::new(daemon.clone())))
        .add_service(limited!(v1::cores_server::CoresServer<_>, cores::Cores::new(daemon.clone())))
        .add_service(limited!(
            v1::tokens_server::TokensServer<_>,
            tokens::Tokens::new(daemon.clone())
        ))
        .add_service(limited!(v1::web_server::WebServer<_>, web::Web::new(daemon.clone())))
        .add_service(limited!(v1::plugins_server::PluginsServer<_>, plugins::Plugins::new(daemon)))
        .serve_with_incoming_shutdown(
            incoming::accept(listener, network, limits, &closing),
            closing.clone().cancelled_owned(),
        );
    ready();
    tokio::select! {
        result = served => result?,
        () = deadline(closing) => tracing::warn!("abandoned calls that did not end in time"),
    }
    socket::remove(&path);
    Ok(())
}

async fn listen(network: &Network) -> Result<(TcpListener, Arc<LiveServer>), ServeError> {
    let address = network.address;
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|source| ServeError::Listen { address, source })?;
    tracing::info!(%address, "listen on the network");
    Ok((listener, network.tls.clone()))
}

async fn deadline(closing: tokio_util::sync::CancellationToken) {
    closing.cancelled().await;
    tokio::time::sleep(DRAIN_DEADLINE).await;
}

/// Sets limits, of which tonic has none by default.
fn builder(request_timeout: Duration) -> Server {
    Server::builder()
        .timeout(request_timeout)
        .load_shed(true)
        .concurrency_limit_per_connection(REQUESTS_PER_CONNECTION_MAX)
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .initial_connection_window_size(WINDOW_BYTES)
        .initial_stream_window_size(WINDOW_BYTES)
        .http2_max_header_list_size(HEADER_LIST_BYTES_MAX)
        .http2_max_pending_accept_reset_streams(Some(PENDING_RESETS_MAX))
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
}

fn reflection() -> Result<
    tonic_reflection::server::v1::ServerReflectionServer<
        impl tonic_reflection::server::v1::ServerReflection,
    >,
    tonic_reflection::server::Error,
> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(traind_proto::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
}
