//! The API of the page's scripts. Each request requires the role of the corresponding RPC.

use std::convert::Infallible;
use std::future::ready;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::sse::{self, KeepAlive, Sse};
use futures_util::{Stream, StreamExt, stream};
use serde::Deserialize;
use serde_json::json;
use tonic::Code;
use traind_proto::v1;

use super::failure::Failure;
use super::session::User;
use super::views::{self, Curves};
use super::{Answer, Site};
use crate::access::audit::Event;
use crate::control::error::Error;
use crate::interfaces::server::guard::rights;
use crate::interfaces::server::services::jobs::{present, present_with_data};
use crate::interfaces::server::services::watch;
use crate::jobs::state::JobState;
use crate::jobs::store::{Store, StoreError};

/// The most finished jobs that are listed.
const ENDED_MAX: usize = 100;
/// The most active jobs that are listed.
const ACTIVE_MAX: usize = 1000;
/// The most waiting jobs that are listed.
const WAITING_MAX: usize = 500;
/// Events per read.
const PAGE: usize = 1000;

/// `GET /api/overview`: cores, active jobs, the newest waiting and finished jobs.
pub(super) async fn overview(State(site): State<Site>, user: User) -> Answer {
    let caller = user.authorize(&site, "/traind.v1.Jobs/ListJobs")?;
    let (user, scope) = (caller.user.clone(), caller.scope());
    let list = move |store: &Store| {
        // One more than is shown, to know whether there are more.
        let [active, waiting, ended] = [ACTIVE_MAX, WAITING_MAX + 1, ENDED_MAX];
        let list = |of: fn(&JobState) -> bool, most| {
            let states: Vec<_> = JobState::ALL.into_iter().filter(of).collect();
            store.list(&states, scope.as_deref(), i64::MAX, most)
        };
        let mut waiting = list(|state| *state == JobState::Pending, waiting)?;
        let more_wait = waiting.len() > WAITING_MAX;
        waiting.truncate(WAITING_MAX);
        let mut jobs = list(|state| state.is_active(), active)?;
        jobs.append(&mut waiting);
        jobs.extend(list(|state| state.is_terminal(), ended)?);
        Ok::<_, StoreError>((jobs, more_wait))
    };
    let (jobs, more_wait) = site.daemon.store.run(list).await.map_err(Error::from)?;
    let cores = site.daemon.cores().await?;
    let host = &site.daemon.settings.host;
    Ok(Json(json!({
        "user": user,
        "host": { "platform": host.platform, "device": host.device(0) },
        "cores": cores.iter().map(views::core).collect::<Vec<_>>(),
        "more_wait": more_wait,
        "jobs": jobs.into_iter().map(|job| views::job(&present(&site.daemon, job))).collect::<Vec<_>>(),
    })))
}

/// `GET /api/jobs/ID`
pub(super) async fn job(State(site): State<Site>, Path(id): Path<String>, user: User) -> Answer {
    let caller = user.authorize(&site, "/traind.v1.Jobs/GetJob")?;
    let job = site.daemon.get(&id, caller.scope()).await?;
    Ok(Json(views::job(&present_with_data(&site.daemon, job).await?)))
}

/// `GET /api/jobs/ID/curves`: downsampled metrics of the job.
pub(super) async fn curves(State(site): State<Site>, Path(id): Path<String>, user: User) -> Answer {
    let caller = user.authorize(&site, "/traind.v1.Jobs/WatchJob")?;
    let job = site.daemon.get(&id, caller.scope()).await?;
    let curves = site.daemon.store.run(move |store| read_curves(store, job.number)).await;
    Ok(Json(curves.map_err(Error::from)?.view()))
}

fn read_curves(store: &Store, job: i64) -> Result<Curves, StoreError> {
    let (mut curves, mut from) = (Curves::default(), 1);
    loop {
        let page = store.events(job, from, PAGE)?;
        let Some(last) = page.last() else { return Ok(curves) };
        from = last.sequence + 1;
        page.iter().for_each(|event| curves.add(event));
    }
}

#[derive(Deserialize)]
pub(super) struct From {
    #[serde(default)]
    from: u64,
}

/// `GET /api/jobs/ID/events?from=SEQUENCE`: server-sent events until the job ends, or until the
/// user loses the permission.
pub(super) async fn events(
    State(site): State<Site>,
    Path(id): Path<String>,
    Query(From { from }): Query<From>,
    user: User,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, Failure> {
    let call = "/traind.v1.Jobs/WatchJob";
    let caller = user.authorize(&site, call)?;
    let permit = site.streams.take(&caller.user).ok_or_else(Failure::busy)?;
    let job = site.daemon.get(&id, caller.scope()).await?;
    let events = watch::events(site.daemon.clone(), job, from.max(1));
    // Without the last message the page would reconnect after the job has ended.
    let end = stream::iter([sse::Event::default().event("end").data("{}")]);
    let messages = events
        .filter_map(|event| ready(event.ok().map(message)))
        .chain(end)
        .map(move |message| {
            let _ = &permit;
            Ok(message)
        })
        .take_until(Box::pin(rights::revoked(site.daemon, caller, call.to_owned())));
    Ok(Sse::new(messages).keep_alive(KeepAlive::default()))
}

fn message(event: v1::Event) -> sse::Event {
    sse::Event::default().data(views::event(&event).to_string())
}

/// `POST /api/jobs/ID/cancel`
pub(super) async fn cancel(State(site): State<Site>, Path(id): Path<String>, user: User) -> Answer {
    let call = "/traind.v1.Jobs/CancelJob";
    let event = user.event(call, &id);
    let cancelled = async {
        let caller = user.authorize(&site, call)?;
        Ok::<_, Failure>(site.daemon.cancel(&id, &caller).await?)
    }
    .await;
    let outcome = cancelled.as_ref().map_or_else(|failure| failure.outcome, |_| Code::Ok);
    let (daemon, event) = (site.daemon.clone(), Event { outcome: format!("{outcome:?}"), ..event });
    // A panic was reported.
    let _ = tokio::task::spawn_blocking(move || daemon.audit(event)).await;
    Ok(Json(views::job(&present(&site.daemon, cancelled?))))
}
