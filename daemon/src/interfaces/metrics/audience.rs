//! Who reads the metrics: every user of this host can connect, and a token says who asks.

use axum::http::{HeaderMap, header};

use crate::control::daemon::Daemon;
use crate::control::error::Error;
use crate::interfaces::http::bearer_secret;

/// The call whose role and scope apply to the jobs of a scrape.
const LISTS_JOBS: &str = "/traind.v1.Jobs/ListJobs";

/// The jobs that a scrape names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    /// No job: the reader is unknown.
    Anyone,
    /// The jobs of one user; cores name their jobs, as every viewer sees them.
    User(String),
    /// All jobs.
    Admin,
}

impl Audience {
    /// Identifies the reader by the token in the request. Without one it is anyone, or the whole host is an
    /// admin if `is_open`.
    pub(super) fn of(
        headers: &HeaderMap,
        daemon: &Daemon,
        is_open: bool,
    ) -> Result<Audience, Error> {
        let Some(value) = headers.get(header::AUTHORIZATION) else {
            return Ok(if is_open { Audience::Admin } else { Audience::Anyone });
        };
        let bearer = bearer_secret(value).and_then(|secret| daemon.tokens.bearer_of(secret));
        let bearer = bearer.ok_or(Error::InvalidToken)?;
        let access = daemon.settings.access.now();
        let caller = access.admit(bearer.user, bearer.role_max, LISTS_JOBS)?;
        Ok(caller.scope().map_or(Audience::Admin, Audience::User))
    }

    /// Whether a job of this owner is shown.
    pub(super) fn sees(&self, owner: &str) -> bool {
        match self {
            Audience::Anyone => false,
            Audience::User(user) => user == owner,
            Audience::Admin => true,
        }
    }

    /// Whether cores show which job holds them.
    pub(super) fn sees_holders(&self) -> bool {
        *self != Audience::Anyone
    }
}
