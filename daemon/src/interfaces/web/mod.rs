//! The web page: what jobs and cores do, for a browser.
//!
//! It is served on loopback, where every user of the machine can connect, so a browser has to
//! log in: `traind web` asks over the unix socket, where the kernel says who asks, for an
//! address that works once. From then on the page in that browser sees and does what that user
//! may. Nothing comes from other hosts: the page works on a machine without internet.

mod api;
mod assets;
mod failure;
mod session;
mod views;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};

use crate::control::daemon::Daemon;
use crate::interfaces::server::quota::Quota;

/// Event streams of one user, over all their browsers.
const STREAMS_PER_USER_MAX: usize = 64;

/// The page runs its own scripts and styles and nobody else's, and is shown in no other page.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[derive(Clone)]
struct Site {
    daemon: Arc<Daemon>,
    streams: Quota,
}

pub(crate) fn router(daemon: Arc<Daemon>) -> Router {
    let site = Site { daemon, streams: Quota::new(STREAMS_PER_USER_MAX) };
    Router::new()
        .route("/", get(assets::page))
        .route("/assets/{name}", get(assets::asset))
        .route("/api/login", post(session::log_in))
        .route("/api/overview", get(api::overview))
        .route("/api/jobs/{id}", get(api::job))
        .route("/api/jobs/{id}/curves", get(api::curves))
        .route("/api/jobs/{id}/events", get(api::events))
        .route("/api/jobs/{id}/cancel", post(api::cancel))
        .layer(middleware::from_fn(guard_headers))
        .with_state(site)
}

async fn guard_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
