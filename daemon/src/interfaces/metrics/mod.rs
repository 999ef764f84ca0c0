//! Metrics for Prometheus, in the OpenMetrics text format.
//!
//! Names and labels follow existing dashboards: cores have `neuroncore` like Neuron's exporter, or
//! `gpu` and `modelName` like DCGM's, and calls are named as by gRPC middlewares. Metrics of jobs
//! and cores are read at each scrape; calls are counted when they end. Jobs that have ended are
//! only counted, so that series do not accumulate. Names, owners and metrics of jobs are for those who may
//! see them.

mod audience;
mod calls;
mod cores;
mod gauges;
mod jobs;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;

pub(crate) use calls::{Call, Calls};

use audience::Audience;

use crate::control::daemon::Daemon;
use crate::control::error::Error;
use crate::jobs::store::{Billed, Job, Store, StoreError};
use gauges::Gauges;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Prometheus abandons a scrape after ten seconds by default.
const TIMEOUT: Duration = Duration::from_secs(8);

/// Serves `/metrics`. `is_open`: readers without a token see all jobs, too.
pub(crate) fn router(daemon: Arc<Daemon>, calls: Arc<Calls>, is_open: bool) -> Router {
    let answer = move |headers: HeaderMap| scrape(daemon.clone(), calls.clone(), headers, is_open);
    Router::new().route("/metrics", get(answer))
}

async fn scrape(
    daemon: Arc<Daemon>,
    calls: Arc<Calls>,
    headers: HeaderMap,
    is_open: bool,
) -> Response {
    let audience = match Audience::of(&headers, &daemon, is_open) {
        Ok(audience) => audience,
        Err(error @ Error::Denied(_)) => {
            return (StatusCode::FORBIDDEN, error.to_string()).into_response();
        }
        Err(error) => return (StatusCode::UNAUTHORIZED, error.to_string()).into_response(),
    };
    let exposition = exposition(&daemon, &calls, &audience);
    let text = match tokio::time::timeout(TIMEOUT, exposition).await {
        Ok(Ok(text)) => text,
        Ok(Err(error)) => {
            tracing::error!(%error, "answer a scrape");
            return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response();
        }
        Err(_) => {
            return (StatusCode::SERVICE_UNAVAILABLE, "the scrape took too long").into_response();
        }
    };
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response()
}

#[derive(Debug, thiserror::Error)]
enum ScrapeError {
    #[error(transparent)]
    Daemon(#[from] Error),
    #[error("write the metrics: {0}")]
    Format(#[from] fmt::Error),
}

async fn exposition(
    daemon: &Daemon,
    calls: &Calls,
    audience: &Audience,
) -> Result<String, ScrapeError> {
    let (states, unfinished, billed) = daemon.store.run(look).await.map_err(Error::from)?;
    let cores = daemon.cores().await?;
    let mut gauges = Gauges::default();
    gauges.set(
        "traind_build_info",
        "Version of the daemon; always 1",
        &[("version", env!("CARGO_PKG_VERSION"))],
        1.0,
    );
    jobs::describe(&mut gauges, &states, &unfinished, &billed, audience);
    cores::describe(&mut gauges, &cores, audience);
    let mut registry = Registry::default();
    gauges.register(&mut registry);
    let mut text = String::new();
    encode_registry(&mut text, &registry)?;
    calls.encode(&mut text)?;
    encode_eof(&mut text)?;
    Ok(text)
}

type Seen = (Vec<(String, u64)>, Vec<Arc<Job>>, Billed);

fn look(store: &Store) -> Result<Seen, StoreError> {
    Ok((store.count_by_state()?, store.unfinished()?, store.billed()?))
}
