//! In front of every call: learns who calls, and refuses what they may not do and what is
//! too much.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::http::header::AUTHORIZATION;
use hyper::http::{HeaderMap, Request, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

use super::body::{cut_off, tapped};
use super::rights;
use crate::access::Caller;
use crate::access::account::user_name;
use crate::access::tokens::Bearer;
use crate::control::daemon::Daemon;
use crate::control::error::Error;
use crate::interfaces::metrics::Calls;
use crate::interfaces::server::connections::connection::{ConnectionInfo, Peer};
use crate::interfaces::server::lateness::Lateness;
use crate::interfaces::server::quota::{Place, Quota};

/// Calls under way at a time, streams with them.
const CALLS_MAX: usize = 4096;
/// Calls that are handled at a time: those beyond would only make each other wait. A stream is
/// handled until it begins.
const HANDLED_MAX: usize = 64;
/// How long a call may wait until it is begun with, from when it came.
const PATIENCE: Duration = Duration::from_millis(30);
/// Calls for which a runner may have to think, or a disk to sync.
const LONG: [&str; 2] = ["/traind.v1.Jobs/CreateJob", "/traind.v1.Jobs/PlanJob"];
const LONG_HANDLED_MAX: usize = 16;

/// Puts a [`Guarded`] in front of the services.
#[derive(Clone)]
pub(crate) struct Guard {
    daemon: Arc<Daemon>,
    metrics: Arc<Calls>,
    calls: Arc<Semaphore>,
    handled: Arc<Semaphore>,
    lateness: Lateness,
    long_handled: Arc<Semaphore>,
    of_users: Quota,
}

#[derive(Clone)]
pub(crate) struct Guarded<S> {
    guard: Guard,
    inner: S,
}

/// A call for as long as it lasts.
struct UnderWay {
    _of_user: Place,
    _of_all: OwnedSemaphorePermit,
}

impl Guard {
    pub(crate) fn new(daemon: Arc<Daemon>, calls: Arc<Calls>) -> Guard {
        let of_users = Quota::new(daemon.settings.limits.calls_per_user);
        let places = |most| Arc::new(Semaphore::new(most));
        Guard {
            daemon,
            metrics: calls,
            calls: places(CALLS_MAX),
            handled: places(HANDLED_MAX),
            lateness: Lateness::default(),
            long_handled: places(LONG_HANDLED_MAX),
            of_users,
        }
    }

    /// Waits until the call can be begun with: people wait for long ones, so these may wait too;
    /// all others are refused while they would still be quick.
    async fn begin(self, long: bool, late: Duration) -> Result<OwnedSemaphorePermit, Error> {
        let busy = || Error::Busy { what: "calls at once" };
        if long {
            return self.long_handled.acquire_owned().await.map_err(|_| busy());
        }
        let patience = PATIENCE.checked_sub(late).ok_or_else(busy)?;
        let place = tokio::time::timeout(patience, self.handled.acquire_owned()).await;
        place.ok().and_then(Result::ok).ok_or_else(busy)
    }

    fn admit(&self, request: &Request<Body>) -> Result<(Caller, UnderWay, Duration), Error> {
        let info = request.extensions().get::<ConnectionInfo>().ok_or(Error::Nobody)?;
        let late = self.lateness.of_call().max(info.take_delay());
        if let Some(what) = info.refused() {
            return Err(Error::Busy { what });
        }
        let settings = &self.daemon.settings;
        let Bearer { user, role_max, token_id } = self.identify(&info.peer, request.headers())?;
        let mut caller = settings.access.now().admit(user, role_max, request.uri().path())?;
        caller.token = token_id;
        caller.account = match info.peer {
            Peer::User(account) => settings.run_as.account(Some(account)),
            Peer::Network { .. } => {
                settings.run_as.account(settings.access.now().account_of(&caller.user)?)
            }
        };
        let busy = |what| move || Error::Busy { what };
        let of_user = self.of_users.take(&caller.user).ok_or_else(busy("calls of one user"))?;
        let of_all = self.calls.clone().try_acquire_owned().ok().ok_or_else(busy("calls"))?;
        Ok((caller, UnderWay { _of_user: of_user, _of_all: of_all }, late))
    }

    /// The caller's name, and the most that it may do. On the network a token counts more
    /// than the certificate of the program that carries it.
    fn identify(&self, peer: &Peer, headers: &HeaderMap) -> Result<Bearer, Error> {
        let named = |user| Bearer { user, role_max: None, token_id: None };
        match peer {
            Peer::User(account) => Ok(named(user_name(account.uid))),
            Peer::Network { name } => match headers.get(AUTHORIZATION) {
                Some(value) if self.daemon.settings.accepts_tokens() => {
                    let secret = value.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
                    secret.and_then(|s| self.daemon.tokens.bearer_of(s.trim())).ok_or(Error::Token)
                }
                _ => name.clone().map(named).ok_or(Error::Nobody),
            },
        }
    }
}

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { guard: self.clone(), inner }
    }
}

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let (caller, under_way, late) = match self.guard.admit(&request) {
            Ok(admitted) => admitted,
            Err(error) => return Box::pin(async move { Ok(Status::from(error).into_http()) }),
        };
        let path = request.uri().path().to_owned();
        let lost = self.guard.metrics.streams(&path).then(|| {
            let lost = rights::lost(self.guard.daemon.clone(), caller.clone(), path);
            async { Status::from(lost.await) }
        });
        request.extensions_mut().insert(caller);
        // What comes behind has no need of the secret.
        request.headers_mut().remove(AUTHORIZATION);
        let long = LONG.contains(&request.uri().path());
        let place = self.guard.clone().begin(long, late);
        // The one that was made ready stays here; its clone is for the next call.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        Box::pin(async move {
            let place = match place.await {
                Ok(place) => place,
                Err(error) => return Ok(Status::from(error).into_http()),
            };
            // A call is under way until its answer is gone.
            let held = move |_: &_| {
                let _ = &under_way;
            };
            let response = inner.call(request).await?;
            drop(place);
            Ok(response.map(|body| {
                let body = tapped(body, held);
                match lost {
                    Some(lost) => cut_off(body, lost),
                    None => body,
                }
            }))
        })
    }
}
