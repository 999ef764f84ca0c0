//! `notify`: who hears of changes of the job's state.

use std::path::PathBuf;

use crate::section::section;

/// The states of a job.
pub(crate) const STATES: [&str; 7] =
    ["pending", "starting", "running", "cancelling", "completed", "failed", "cancelled"];

section! {
    /// Webhooks and a command that are notified when the job enters a state.
    pub struct Notify {
        /// The states: `pending`, `starting`, `running`, `cancelling`, `completed`, `failed`,
        /// `cancelled`.
        states: Vec<String> =
            ["completed", "failed", "cancelled"].map(str::to_owned).to_vec();
        /// URLs that get a POST request with JSON. The daemon tries again for a day where one does
        /// not answer with success, also after it was restarted.
        webhooks: Vec<String> = Vec::new();
        /// File with the secret by which requests are signed: the header `X-Traind-Signature-256` is
        /// `sha256=` and the HMAC-SHA-256 of the body in hexadecimal. The job's user must be able to
        /// read it.
        secret_file: Option<PathBuf> = None;
        /// Program with its arguments, which gets the same JSON on its standard input. It runs on the
        /// daemon's host with the rights of the job's user, for at most a minute, and again later if
        /// it fails.
        command: Vec<String> = Vec::new();
    }
}
