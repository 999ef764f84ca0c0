//! Plain HTTP on loopback, for browsers and Prometheus.
//!
//! There is no encryption, so an address that other hosts can reach is refused at startup; they
//! connect through ssh or an authenticating proxy. Requests must name the loopback host, so that a
//! web site cannot make its visitors' browsers read from the daemon (DNS rebinding). Every user of
//! this host can connect, so slow clients are disconnected and the number of connections is
//! limited, which protects the daemon's file descriptors.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::limit::GlobalConcurrencyLimitLayer;

/// Includes a connection for each open page that follows a job; further clients wait.
const CONNECTIONS_MAX: usize = 1024;
const REQUESTS_MAX: usize = 64;
/// Limit from the connection, or the previous response, to the end of a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// Limit from there to the start of the response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay after a failed accept, which usually means too many open files.
const RETRY: Duration = Duration::from_millis(100);
const REQUEST_BYTES_MAX: usize = 16 * 1024;

#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error(
        "{setting} {address} can be reached from other machines, and has no encryption; \
         listen on 127.0.0.1 or [::1] and forward the port through ssh or a proxy with TLS"
    )]
    NotLoopback { setting: &'static str, address: SocketAddr },
    #[error("{setting} {address}: {source}")]
    Bind { setting: &'static str, address: SocketAddr, source: io::Error },
}

/// Binds the address that `setting` names.
pub(crate) async fn bind(
    setting: &'static str,
    address: SocketAddr,
) -> Result<TcpListener, HttpError> {
    if !address.ip().is_loopback() {
        return Err(HttpError::NotLoopback { setting, address });
    }
    let bound = TcpListener::bind(address).await;
    bound.map_err(|source| HttpError::Bind { setting, address, source })
}

/// Serves until `closing` is cancelled, which also ends streams.
pub(crate) async fn serve(listener: TcpListener, router: Router, closing: CancellationToken) {
    let router = guarded(router);
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let accepting = async {
        while let Ok(permit) = permits.clone().acquire_owned().await {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let serving = serve_client(stream, router.clone(), HEAD_TIMEOUT);
                    let serving = closing.clone().run_until_cancelled_owned(serving);
                    tokio::spawn(async move {
                        serving.await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "accept an HTTP connection");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    };
    closing.run_until_cancelled(accepting).await;
}

fn guarded(router: Router) -> Router {
    router
        .layer(middleware::from_fn(limit_response_time))
        .layer(middleware::from_fn(require_loopback_host))
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .layer(GlobalConcurrencyLimitLayer::new(REQUESTS_MAX))
}

/// Serves one client until it disconnects, or sends no request within `head_timeout`.
async fn serve_client(stream: TcpStream, router: Router, head_timeout: Duration) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head_timeout);
    let service = TowerToHyperService::new(router);
    if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "serve an HTTP connection");
    }
}

async fn limit_response_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(RESPONSE_TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the response took too long").into_response(),
    }
}

async fn require_loopback_host(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    if host.is_some_and(is_loopback_name) {
        return next.run(request).await;
    }
    let message = "the request does not name this machine's loopback address";
    (StatusCode::MISDIRECTED_REQUEST, message).into_response()
}

fn is_loopback_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    ["localhost", "127.0.0.1", "[::1]"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[test]
    fn only_loopback_hosts_are_served() {
        for host in ["localhost", "localhost:9400", "127.0.0.1:80", "[::1]", "[::1]:9400"] {
            assert!(is_loopback_name(host), "{host}");
        }
        for host in ["example.org", "localhost.example.org:9400", "10.0.0.7:9400", "", ":9400"] {
            assert!(!is_loopback_name(host), "{host}");
        }
    }

    #[tokio::test]
    async fn a_public_address_is_refused() {
        let refused = bind("--metrics-address", "0.0.0.0:0".parse().unwrap()).await.unwrap_err();
        assert!(refused.to_string().contains("forward the port"), "{refused}");
        let bound = bind("--metrics-address", "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let taken = bind("--metrics-address", bound.local_addr().unwrap()).await.unwrap_err();
        assert!(taken.to_string().contains("in use"), "{taken}");
    }

    #[tokio::test]
    async fn a_slow_client_is_disconnected() {
        let listener = bind("--web-address", "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ").await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let serving = serve_client(stream, guarded(Router::new()), Duration::from_millis(20));
        let ended = tokio::time::timeout(Duration::from_secs(30), serving).await;
        assert!(ended.is_ok(), "the connection stays open");
        let mut response = String::new();
        client.read_to_string(&mut response).await.unwrap();
        assert!(!response.starts_with("HTTP/1.1 200"), "{response}");
    }
}
