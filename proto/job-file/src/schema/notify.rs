//! `notify`: who hears of changes of the job's state.

use std::path::PathBuf;

use crate::section::section;

/// The states of a job.
pub(crate) const STATES: [&str; 7] =
    ["pending", "starting", "running", "cancelling", "completed", "failed", "cancelled"];

section! {
    /// Webhooks and a command that are notified when the job enters a state.
    pub struct Notify {
        /// States to notify about: `pending`, `starting`, `running`, `cancelling`, `completed`,
        /// `failed`, `cancelled`.
        states: Vec<String> =
            ["completed", "failed", "cancelled"].map(str::to_owned).to_vec();
        /// At most 16 URLs that receive a POST request with JSON. If one does not respond with success, the
        /// daemon retries for a day, even across its restarts.
        webhooks: Vec<String> = Vec::new();
        /// File with the secret that signs requests: the header `X-Traind-Signature-256` is
        /// `sha256=` followed by the HMAC-SHA-256 of the body in hexadecimal. The job's user must
        /// be able to read the file.
        secret_file: Option<PathBuf> = None;
        /// Program and its arguments, which receives the same JSON on standard input. It runs on
        /// the daemon's host with the rights of the job's user, for at most a minute, and is
        /// retried later if it fails.
        command: Vec<String> = Vec::new();
    }
}
