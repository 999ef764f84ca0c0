//! Rights of callers besides their role. Ends streams whose caller loses the permission: the token is revoked or
//! expires, or the access file no longer grants the role.

use std::sync::Arc;

use crate::access::Caller;
use crate::control::daemon::Daemon;
use crate::control::error::Error;

/// Calls that start processes for their caller.
pub(super) const STARTING: [&str; 5] = [
    "/traind.v1.Jobs/CreateJob",
    "/traind.v1.Jobs/ForkJob",
    "/traind.v1.Jobs/AdoptRun",
    "/traind.v1.Jobs/PlanJob",
    "/traind.v1.Jobs/GenerateTexts",
];

/// Refuses a call that would start a process as the daemon, which can switch users, for want of an account.
pub(crate) fn refuse_start(caller: &Caller, call: &str) -> Result<(), Error> {
    match caller.may_start || !STARTING.contains(&call) {
        true => Ok(()),
        false => Err(Error::NoAccount { user: caller.user.clone() }),
    }
}

/// Resolves when the caller would no longer be admitted to the call.
pub(crate) async fn revoked(daemon: Arc<Daemon>, caller: Caller, path: String) -> Error {
    let token_ends = async {
        match &caller.token {
            Some(id) => daemon.tokens.until_end(id).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = token_ends => Error::InvalidToken,
        denied = daemon.settings.access.until_denied(&caller, &path) => denied.into(),
    }
}
