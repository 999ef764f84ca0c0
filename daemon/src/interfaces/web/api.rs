//! What the page's scripts ask for. Each answer takes the role of the RPC that would give it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::sse::{self, KeepAlive, Sse};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_stream::{Stream, StreamExt};
use traind_proto::v1;

use super::Site;
use super::failure::Failure;
use super::session::User;
use super::views::{self, Curves};
use crate::control::error::Error;
use crate::interfaces::server::guard::rights;
use crate::interfaces::server::services::jobs::{present, present_whole};
use crate::interfaces::server::services::watch;
use crate::jobs::state::JobState;
use crate::jobs::store::{Store, StoreError};

type Answer = Result<Json<Value>, Failure>;

/// Jobs that have ended and are listed.
const ENDED_MAX: usize = 100;
/// Jobs that are at work and are listed.
const ACTIVE_MAX: usize = 1000;
/// Jobs that wait and are listed.
const WAITING_MAX: usize = 500;
/// Events read at a time.
const PAGE: usize = 1000;

/// `GET /api/overview`: cores, jobs at work, the newest that wait and that have ended.
pub(super) async fn overview(State(site): State<Site>, user: User) -> Answer {
    let caller = user.may(&site, "/traind.v1.Jobs/ListJobs")?;
    let (user, scope) = (caller.user.clone(), caller.scope());
    let list = move |store: &Store| {
        // One more than is shown tells that there are more.
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
    let caller = user.may(&site, "/traind.v1.Jobs/GetJob")?;
    let job = site.daemon.get(&id, caller.scope()).await?;
    Ok(Json(views::job(&present_whole(&site.daemon, job).await?)))
}

/// `GET /api/jobs/ID/curves`: the course of its figures, thinned out.
pub(super) async fn curves(State(site): State<Site>, Path(id): Path<String>, user: User) -> Answer {
    let caller = user.may(&site, "/traind.v1.Jobs/WatchJob")?;
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
/// user has lost the right to them.
pub(super) async fn events(
    State(site): State<Site>,
    Path(id): Path<String>,
    Query(From { from }): Query<From>,
    user: User,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, Failure> {
    let call = "/traind.v1.Jobs/WatchJob";
    let caller = user.may(&site, call)?;
    let place = site.streams.take(&caller.user).ok_or_else(Failure::busy)?;
    let job = site.daemon.get(&id, caller.scope()).await?;
    let events = watch::events(site.daemon.clone(), job, from.max(1));
    // Tells the page that the job has ended, so that it does not ask again.
    let end = tokio_stream::once(sse::Event::default().event("end").data("{}"));
    let messages = events.filter_map(|event| event.ok()).map(message).chain(end);
    let held = messages.map(move |message| {
        let _ = &place;
        Ok(message)
    });
    let lost = rights::lost(site.daemon, caller, call.to_owned());
    Ok(Sse::new(Until { stream: held, end: Box::pin(lost) }).keep_alive(KeepAlive::default()))
}

/// A stream that breaks off when something happens.
struct Until<S, E> {
    stream: S,
    end: Pin<Box<E>>,
}

impl<S: Stream + Unpin, E: Future> Stream for Until<S, E> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.stream).poll_next(context)
    }
}

fn message(event: v1::Event) -> sse::Event {
    sse::Event::default().data(views::event(&event).to_string())
}

/// `POST /api/jobs/ID/cancel`
pub(super) async fn cancel(State(site): State<Site>, Path(id): Path<String>, user: User) -> Answer {
    let caller = user.may(&site, "/traind.v1.Jobs/CancelJob")?;
    let job = site.daemon.cancel(&id, &caller).await?;
    Ok(Json(views::job(&present(&site.daemon, job))))
}
