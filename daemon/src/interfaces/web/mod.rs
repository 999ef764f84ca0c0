//! The web page, which shows jobs and cores in a browser.
//!
//! It is served on loopback, to which every user of the machine can connect, so browsers must log
//! in: `traind web` requests a one-time URL over the unix socket, where the kernel reports the
//! user. The page then has that user's permissions. It loads nothing from other hosts, and works
//! without internet access.

mod api;
mod assets;
mod failure;
mod plans;
mod session;
mod views;

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::Value;

use crate::control::daemon::Daemon;
use crate::interfaces::server::quota::Quota;
use failure::Failure;

/// The most event streams of one user, over all browsers.
const STREAMS_PER_USER_MAX: usize = 64;
/// The most plans that are made for one user at a time: a search runs a process for up to a minute.
const PLANS_PER_USER_MAX: usize = 2;

/// Allows only the page's own scripts and styles, and no embedding in other pages.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[derive(Clone)]
struct Site {
    daemon: Arc<Daemon>,
    streams: Quota,
    plans: Quota,
}

type Answer = Result<Json<Value>, Failure>;

pub(crate) fn router(daemon: Arc<Daemon>) -> Router {
    let (streams, plans) = (Quota::new(STREAMS_PER_USER_MAX), Quota::new(PLANS_PER_USER_MAX));
    let site = Site { daemon, streams, plans };
    Router::new()
        .route("/", get(assets::page))
        .route("/assets/{name}", get(assets::asset))
        .route("/api/login", post(session::log_in))
        .route("/api/overview", get(api::overview))
        .route("/api/jobs/{id}", get(api::job))
        .route("/api/jobs/{id}/curves", get(api::curves))
        .route("/api/jobs/{id}/events", get(api::events))
        .route("/api/jobs/{id}/cancel", post(api::cancel))
        .route("/api/plan", post(plans::plan))
        .layer(middleware::from_fn(set_security_headers))
        .with_state(site)
}

async fn set_security_headers(request: Request, next: Next) -> Response {
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
