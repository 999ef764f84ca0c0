//! How many changes of a job in a cluster become events. Its user can make the cluster report others every second, as
//! by new reasons to wait.

use std::time::{Duration, Instant};

/// Changes that may follow each other at once.
const BURST: u32 = 100;
/// The period in which one more becomes possible.
const PERIOD: Duration = Duration::from_secs(60);

/// The changes of one run.
#[derive(Debug)]
pub(super) struct Changes {
    left: u32,
    /// When the last one was added to `left`.
    since: Instant,
}

impl Changes {
    pub(super) fn new(now: Instant) -> Changes {
        Changes { left: BURST, since: now }
    }

    /// Whether a change may be stored now.
    pub(super) fn permit(&mut self, now: Instant) -> bool {
        while self.left < BURST && now.duration_since(self.since) >= PERIOD {
            self.left += 1;
            self.since += PERIOD;
        }
        if self.left == BURST {
            self.since = now;
        }
        let permitted = self.left > 0;
        self.left = self.left.saturating_sub(1);
        permitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_changes_every_second_has_few_events() {
        let start = Instant::now();
        let mut changes = Changes::new(start);
        let day = 24 * 3600;
        let count = |changes: &mut Changes, seconds: std::ops::Range<u64>| {
            seconds.filter(|it| changes.permit(start + Duration::from_secs(*it))).count()
        };
        assert_eq!(count(&mut changes, 0..50), 50, "those of most jobs");
        assert_eq!(count(&mut changes, 50..day), 50 + 24 * 60 - 1);
        // After a quiet week, as many as at first.
        let later = start + Duration::from_secs(8 * day);
        assert!((0..BURST).all(|_| changes.permit(later)) && !changes.permit(later));
    }
}
