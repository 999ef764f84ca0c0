//! The guard in front of every call: identifies the caller, and checks permissions and limits.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::http::header::AUTHORIZATION;
use hyper::http::{HeaderMap, Request, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};

use super::arrivals::Arrivals;
use super::audited::Audited;
use super::body::{observed, take_until};
use super::rights;
use crate::access::Caller;
use crate::access::account::UserNames;
use crate::access::audit::changes;
use crate::access::tokens::Bearer;
use crate::control::daemon::Daemon;
use crate::control::error::Error;
use crate::control::generator::GENERATION_TIMEOUT;
use crate::control::planner::SEARCH_TIMEOUT;
use crate::interfaces::detached::detached;
use crate::interfaces::http::bearer_secret;
use crate::interfaces::metrics::Calls;
use crate::interfaces::server::connections::connection::{ConnectionInfo, Peer};
use crate::interfaces::server::lateness::Lateness;
use crate::interfaces::server::quota::{Permit, Quota, Turn, Turns};
use crate::settings::RunAs;

/// The most concurrent calls, including streams.
const CALLS_MAX: usize = 4096;
/// The most calls that are handled concurrently: more would only slow each other down. A stream counts until it begins.
const HANDLED_MAX: usize = 64;
/// The most of these of one user, so that nobody takes all places by calling without end.
const HANDLED_OF_USER_MAX: usize = 32;
/// How long a call may wait before it is handled, from its arrival.
const WAIT_MAX: Duration = Duration::from_millis(30);
/// The most calls that start processes, which may take long.
const LONG_HANDLED_MAX: usize = 16;
/// The most calls of one user that start processes.
const LONG_OF_USER_MAX: usize = 4;
/// The call that may compare meshes.
const SEARCHES: &str = "/traind.v1.Jobs/PlanJob";
/// The call that runs a job's model.
const GENERATES: &str = "/traind.v1.Jobs/GenerateTexts";

/// Puts a [`Guarded`] in front of the services.
#[derive(Clone)]
pub(crate) struct Guard {
    daemon: Arc<Daemon>,
    metrics: Arc<Calls>,
    calls: Arc<Semaphore>,
    handled: Turns,
    lateness: Lateness,
    long_handled: Turns,
    of_users: Quota,
    names: UserNames,
    arrivals: Arrivals,
}

#[derive(Clone)]
pub(crate) struct Guarded<S> {
    guard: Guard,
    inner: S,
}

/// A call that its caller may make.
struct Admitted {
    caller: Caller,
    permits: CallPermits,
    /// The time that it has waited since it arrived.
    late: Duration,
}

/// The permits of a call in progress.
struct CallPermits {
    _of_user: Permit,
    _of_all: OwnedSemaphorePermit,
}

/// The permit of a call that is handled.
enum Begun {
    Quick(#[expect(dead_code, reason = "is held")] Turn),
    Generating(#[expect(dead_code, reason = "is held")] Turn),
    Starting(Turn),
}

impl Guard {
    pub(crate) fn new(daemon: Arc<Daemon>, calls: Arc<Calls>) -> Guard {
        let of_users = Quota::new(daemon.settings.limits.calls_per_user);
        let arrivals = Arrivals::new(daemon.settings.limits.request_timeout);
        Guard {
            daemon,
            metrics: calls,
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
            handled: Turns::new(HANDLED_MAX, HANDLED_OF_USER_MAX),
            lateness: Lateness::default(),
            long_handled: Turns::new(LONG_HANDLED_MAX, LONG_OF_USER_MAX),
            of_users,
            names: UserNames::default(),
            arrivals,
        }
    }

    /// Receives the request of `user`, and then waits until the call can be handled.
    async fn begin(
        self,
        request: Request<Body>,
        user: String,
        late: Duration,
    ) -> Result<(Begun, Request<Body>), Error> {
        let path = request.uri().path().to_owned();
        let (head, body) = request.into_parts();
        let body = self.arrivals.receive(&path, body, &user).await?;
        Ok((self.turn(&path, &user, late).await?, Request::from_parts(head, body)))
    }

    /// Waits until the call can be handled. Calls that start processes wait as long as necessary; others are refused
    /// when the wait is too long for a quick call.
    async fn turn(self, path: &str, user: &str, late: Duration) -> Result<Begun, Error> {
        let busy = || Error::Busy { what: "calls at once" };
        if rights::STARTING.contains(&path) {
            let turn = self.long_handled.next(user).await.map_err(|_| busy())?;
            return Ok(if path == GENERATES {
                Begun::Generating(turn)
            } else {
                Begun::Starting(turn)
            });
        }
        let wait = WAIT_MAX.checked_sub(late).ok_or_else(busy)?;
        let permit = tokio::time::timeout(wait, self.handled.next(user)).await;
        permit.ok().and_then(Result::ok).map(Begun::Quick).ok_or_else(busy)
    }

    /// The time until a response must have begun.
    fn time_limit(&self, path: &str) -> Duration {
        let limit = self.daemon.settings.limits.request_timeout;
        match path {
            SEARCHES => limit.max(SEARCH_TIMEOUT),
            GENERATES => limit.max(GENERATION_TIMEOUT),
            _ => limit,
        }
    }

    fn admit(&self, request: &Request<Body>) -> Result<Admitted, Error> {
        let info = request.extensions().get::<ConnectionInfo>().ok_or(Error::Unauthenticated)?;
        let late = self.lateness.of_call().max(info.take_delay());
        let settings = &self.daemon.settings;
        let Bearer { user, role_max, token_id } = self.identify(&info.peer, request.headers())?;
        if let Some(what) = info.refused(&user) {
            return Err(Error::Busy { what });
        }
        let (access, path) = (settings.access.now(), request.uri().path());
        let mut caller = access.admit(user, role_max, path)?;
        let account = match info.peer {
            Peer::User(account) => Some(account),
            Peer::Network { .. } => access.account_of(&caller.user)?,
        };
        caller.may_start = account.is_some() || settings.run_as != RunAs::Submitter;
        (caller.token, caller.account) = (token_id, settings.run_as.account(account));
        rights::refuse_start(&caller, path)?;
        let busy = |what| move || Error::Busy { what };
        let of_user = self.of_users.take(&caller.user).ok_or_else(busy("calls of one user"))?;
        let of_all = self.calls.clone().try_acquire_owned().ok().ok_or_else(busy("calls"))?;
        let permits = CallPermits { _of_user: of_user, _of_all: of_all };
        Ok(Admitted { caller, permits, late })
    }

    /// Begins the line of the audit log for a call that may change something. Strangers get none, since they
    /// could fill the log.
    fn audited(&self, request: &Request<Body>) -> Option<Audited> {
        let path = request.uri().path();
        let info = request.extensions().get::<ConnectionInfo>().filter(|_| changes(path))?;
        let bearer = self.identify(&info.peer, request.headers()).ok()?;
        let mut audited = Audited::new(self.daemon.clone(), &info.peer, path);
        audited.user(&bearer.user, bearer.token_id.as_deref());
        Some(audited)
    }

    /// Identifies the caller. On the network a token takes precedence over the certificate of the
    /// program that presents it.
    fn identify(&self, peer: &Peer, headers: &HeaderMap) -> Result<Bearer, Error> {
        let named = |user| Bearer { user, role_max: None, token_id: None };
        match peer {
            Peer::User(account) => self.names.get(account.uid).map(named).map_err(Error::Switch),
            Peer::Network { name } => match headers.get(AUTHORIZATION) {
                Some(value) if self.daemon.settings.accepts_tokens() => bearer_secret(value)
                    .and_then(|secret| self.daemon.tokens.bearer_of(secret))
                    .ok_or(Error::InvalidToken),
                _ => name.clone().map(named).ok_or(Error::Unauthenticated),
            },
        }
    }
}

/// Handles a call within its time. The start of a process goes on when the caller leaves or the time is over, and keeps
/// its user's turn until it ends; a generator ends with its caller.
async fn handled<R: Send + 'static>(
    call: impl Future<Output = R> + Send + 'static,
    begun: Begun,
    limit: Duration,
) -> Option<R> {
    let Begun::Starting(mut turn) = begun else {
        return tokio::time::timeout(limit, call).await.ok();
    };
    let work = async move {
        let mut call = std::pin::pin!(call);
        match tokio::time::timeout(limit, &mut call).await {
            Ok(response) => response,
            Err(_) => {
                turn.make_room();
                call.await
            }
        }
    };
    tokio::time::timeout(limit, detached(work)).await.ok()
}

/// Returns the response of a call after its line of the audit log is written.
async fn answer(response: Response<Body>, audited: Option<Audited>) -> Response<Body> {
    let Some(audited) = audited else { return response };
    let status = Status::from_header_map(response.headers());
    audited.answered(status.map_or(Code::Ok, |status| status.code())).await;
    response
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
        let mut audited = self.guard.audited(&request);
        let Admitted { caller, permits, late } = match self.guard.admit(&request) {
            Ok(admitted) => admitted,
            Err(error) => {
                let response = Status::from(error).into_http();
                return Box::pin(async move { Ok(answer(response, audited).await) });
            }
        };
        if let Some(audited) = &mut audited {
            audited.caller(&caller);
            request.extensions_mut().insert(audited.note.clone());
        }
        let path = request.uri().path().to_owned();
        let user = caller.user.clone();
        let revoked = self.guard.metrics.streams(&path).then(|| {
            let revoked = rights::revoked(self.guard.daemon.clone(), caller.clone(), path);
            async { Status::from(revoked.await) }
        });
        request.extensions_mut().insert(caller);
        // Services do not need the secret.
        request.headers_mut().remove(AUTHORIZATION);
        let limit = self.guard.time_limit(request.uri().path());
        let begun = self.guard.clone().begin(request, user, late);
        // `poll_ready` was called on this service, so it handles the call; the clone is for the next.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        Box::pin(async move {
            let (permit, request) = match begun.await {
                Ok(begun) => begun,
                Err(error) => return Ok(answer(Status::from(error).into_http(), audited).await),
            };
            // A call holds its permits until the end of its response.
            let held = move |_: &_| {
                let _ = &permits;
            };
            let response = match handled(inner.call(request), permit, limit).await {
                Some(response) => response?,
                None => Status::cancelled("Timeout expired").into_http(),
            };
            let response = answer(response, audited).await;
            Ok(response.map(|body| {
                let body = observed(body, held);
                match revoked {
                    Some(revoked) => take_until(body, revoked),
                    None => body,
                }
            }))
        })
    }
}
