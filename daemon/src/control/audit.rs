//! The daemon's audit log.

use std::sync::Arc;

use super::daemon::Daemon;
use super::error::Error;
use crate::access::audit::Event;
use crate::jobs::store::Store;

impl Daemon {
    /// Writes a line of the audit log. A call is not undone if that fails, as on a full disk: the line waits for room.
    pub(crate) fn audit(&self, event: Event) {
        let call = event.call.clone();
        if let Err(error) = self.audit.append(event) {
            tracing::error!(call, %error, "write the audit log");
        }
    }

    /// Reads some lines of the audit log or of its overflow, from the one with this number on.
    pub(crate) async fn audited(
        self: &Arc<Daemon>,
        from: u64,
        of_overflow: bool,
    ) -> Result<Vec<String>, Error> {
        let daemon = self.clone();
        let read = move |_: &Store| daemon.audit.lines(from, of_overflow);
        self.store.run(read).await.map_err(Error::Audit)
    }
}
