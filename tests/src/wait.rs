//! Waiting for observable conditions, with a deadline.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The variable that sets [`timeout`] in seconds, for scripts that run beside other work at a low priority.
const VARIABLE: &str = "TRAIND_TEST_TIMEOUT";
/// Far longer than any step or compilation takes on a busy machine.
const SECONDS: u64 = 180;

/// Deadline of every wait, counted from a job's latest event.
pub fn timeout() -> Duration {
    static TIMEOUT: LazyLock<Duration> = LazyLock::new(|| {
        let given = std::env::var(VARIABLE).ok().map(|text| text.parse().unwrap());
        Duration::from_secs(given.unwrap_or(SECONDS))
    });
    *TIMEOUT
}

/// Interval between two looks at a condition.
pub const POLL: Duration = Duration::from_millis(10);

/// Waits until `condition` holds. Panics with `what` after [`timeout`].
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < timeout(), "timed out waiting until {what}");
        tokio::time::sleep(POLL).await;
    }
}
