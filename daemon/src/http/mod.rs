//! Plain HTTP on loopback, for what browsers and Prometheus read.
//!
//! There is no encryption here, so an address that others can reach is refused before anything
//! starts; they come through ssh or a proxy that keeps strangers out. A request has to name
//! the loopback host, so that a web site cannot make a visitor's browser read what is served.

use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::limit::GlobalConcurrencyLimitLayer;

const REQUESTS_MAX: usize = 64;
const REQUEST_BYTES_MAX: usize = 16 * 1024;

#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error(
        "{setting} {address} can be reached from other machines, and it is served without encryption; \
         listen on 127.0.0.1 or [::1] and forward the port through ssh or a proxy with TLS"
    )]
    NotLoopback { setting: &'static str, address: SocketAddr },
    #[error("{setting} {address}: {source}")]
    Bind { setting: &'static str, address: SocketAddr, source: io::Error },
}

/// Takes the address, which `setting` named.
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

/// Serves until `closing` is cancelled; streams end with it.
pub(crate) async fn serve(listener: TcpListener, router: Router, closing: CancellationToken) {
    let router = router
        .layer(middleware::from_fn(only_loopback_names))
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .layer(GlobalConcurrencyLimitLayer::new(REQUESTS_MAX));
    tokio::select! {
        served = axum::serve(listener, router) => if let Err(error) = served {
            tracing::error!(%error, "serve HTTP");
        },
        () = closing.cancelled() => {}
    }
}

async fn only_loopback_names(request: Request, next: Next) -> Response {
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

    #[test]
    fn only_names_of_this_machine_are_served() {
        for host in ["localhost", "localhost:9400", "127.0.0.1:80", "[::1]", "[::1]:9400"] {
            assert!(is_loopback_name(host), "{host}");
        }
        for host in ["example.org", "localhost.example.org:9400", "10.0.0.7:9400", "", ":9400"] {
            assert!(!is_loopback_name(host), "{host}");
        }
    }

    #[tokio::test]
    async fn an_address_that_others_reach_is_refused() {
        let refused = bind("--metrics-address", "0.0.0.0:0".parse().unwrap()).await.unwrap_err();
        assert!(refused.to_string().contains("forward the port"), "{refused}");
        let bound = bind("--metrics-address", "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let taken = bind("--metrics-address", bound.local_addr().unwrap()).await.unwrap_err();
        assert!(taken.to_string().contains("in use"), "{taken}");
    }
}
