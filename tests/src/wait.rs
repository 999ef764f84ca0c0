//! Waiting for observable conditions, with a deadline.

use std::time::{Duration, Instant};

/// Deadline of every wait, counted from a job's latest event; far longer than any step or compilation
/// takes on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(180);
/// Interval between two looks at a condition.
pub const POLL: Duration = Duration::from_millis(10);

/// Waits until `condition` holds. Panics with `what` after [`TIMEOUT`].
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < TIMEOUT, "timed out waiting until {what}");
        tokio::time::sleep(POLL).await;
    }
}
