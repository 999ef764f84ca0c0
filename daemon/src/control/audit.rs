//! The daemon's audit log.

use std::sync::Arc;

use super::daemon::Daemon;
use super::error::Error;
use crate::access::audit::Event;

impl Daemon {
    /// Writes a line of the audit log. A call is not undone if that fails, as on a full disk.
    pub(crate) fn audit(&self, event: Event) {
        let call = event.call.clone();
        if let Err(error) = self.audit.append(event) {
            tracing::error!(call, %error, "write the audit log");
        }
    }

    /// Reads some lines of the audit log, from the one with this number on.
    pub(crate) async fn audited(self: &Arc<Daemon>, from: u64) -> Result<Vec<String>, Error> {
        let daemon = self.clone();
        self.store.run(move |_| daemon.audit.lines(from)).await.map_err(Error::Audit)
    }
}
