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
}

#[derive(Clone)]
pub(super) struct Guarded<S> {
    guard: Guard,
    inner: S,
}

impl Guard {
    pub(super) fn new(daemon: Arc<Daemon>) -> Guard {
        Guard { daemon, calls: Arc::new(Semaphore::new(CALLS_MAX)) }
    }

    fn admit(&self, request: &Request<Body>) -> Result<(Caller, OwnedSemaphorePermit), Error> {
        let info = request.extensions().get::<ConnectionInfo>().ok_or(Error::Nobody)?;
        if !info.admitted {
            return Err(Error::Busy { what: "connections" });
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
        let permit = self.calls.clone().try_acquire_owned();
        Ok((caller, permit.map_err(|_| Error::Busy { what: "calls" })?))
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
            Ok((caller, permit)) => {
                request.extensions_mut().insert(caller);
                // What comes behind has no need of the secret.
                request.headers_mut().remove(AUTHORIZATION);
                let response = self.inner.call(request);
                // A call is under way until its answer is gone.
                let held = move |_: &_| {
                    let _ = &permit;
                };
                Box::pin(async move { Ok(response.await?.map(|body| tapped(body, held))) })
            }
            Err(error) => Box::pin(async move { Ok(Status::from(error).into_http()) }),
        }
    }
}
