//! In front of every call: learns who calls, and refuses what they may not do and what is
//! too much.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::http::header::AUTHORIZATION;
use hyper::http::{HeaderMap, Request, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

use super::connection::{ConnectionInfo, Peer};
use super::peer;
use super::quota::{Place, Quota};
use super::tap::tapped;
use crate::access::{Caller, Role};
use crate::daemon::Daemon;
use crate::error::Error;

/// Calls under way at a time, streams with them.
const CALLS_MAX: usize = 4096;

/// Puts a [`Guarded`] in front of the services.
#[derive(Clone)]
pub(super) struct Guard {
    daemon: Arc<Daemon>,
    calls: Arc<Semaphore>,
    of_users: Quota,
}

#[derive(Clone)]
pub(super) struct Guarded<S> {
    guard: Guard,
    inner: S,
}

/// A call for as long as it lasts.
struct UnderWay {
    _of_user: Place,
    _of_all: OwnedSemaphorePermit,
}

impl Guard {
    pub(super) fn new(daemon: Arc<Daemon>) -> Guard {
        let of_users = Quota::new(daemon.settings.limits.calls_per_user);
        Guard { daemon, calls: Arc::new(Semaphore::new(CALLS_MAX)), of_users }
    }

    fn admit(&self, request: &Request<Body>) -> Result<(Caller, UnderWay), Error> {
        let info = request.extensions().get::<ConnectionInfo>().ok_or(Error::Nobody)?;
        if let Some(what) = info.refused {
            return Err(Error::Busy { what });
        }
        let settings = &self.daemon.settings;
        let (user, role_max) = self.identify(&info.peer, request.headers())?;
        let mut caller = settings.access.admit(user, role_max, request.uri().path())?;
        caller.account = match info.peer {
            Peer::User(account) => settings.run_as.account(Some(account)),
            Peer::Network { .. } => {
                settings.run_as.account(settings.access.account_of(&caller.user)?)
            }
        };
        let busy = |what| move || Error::Busy { what };
        let of_user = self.of_users.take(&caller.user).ok_or_else(busy("calls of one user"))?;
        let of_all = self.calls.clone().try_acquire_owned().ok().ok_or_else(busy("calls"))?;
        Ok((caller, UnderWay { _of_user: of_user, _of_all: of_all }))
    }

    /// The caller's name, and the most that it may do. On the network a token counts more
    /// than the certificate of the program that carries it.
    fn identify(&self, peer: &Peer, headers: &HeaderMap) -> Result<(String, Option<Role>), Error> {
        match peer {
            Peer::User(account) => Ok((peer::user_name(account.uid), None)),
            Peer::Network { name } => match headers.get(AUTHORIZATION) {
                Some(value) if self.daemon.settings.accepts_tokens() => {
                    let secret = value.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
                    secret.and_then(|s| self.daemon.tokens.user_of(s.trim())).ok_or(Error::Token)
                }
                _ => name.clone().map(|name| (name, None)).ok_or(Error::Nobody),
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
    S: Service<Request<Body>, Response = Response<Body>>,
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
        match self.guard.admit(&request) {
            Ok((caller, under_way)) => {
                request.extensions_mut().insert(caller);
                // What comes behind has no need of the secret.
                request.headers_mut().remove(AUTHORIZATION);
                let response = self.inner.call(request);
                // A call is under way until its answer is gone.
                let held = move |_: &_| {
                    let _ = &under_way;
                };
                Box::pin(async move { Ok(response.await?.map(|body| tapped(body, held))) })
            }
            Err(error) => Box::pin(async move { Ok(Status::from(error).into_http()) }),
        }
    }
}
