//! The time for which runs hold their cores: what a job costs, and what its user has used of a fair share.

use prost::Message;
use traind_proto::v1::{self, event::Kind};

use super::write::Draft;
use super::{StoreError, usage};
use crate::clock;

impl Draft<'_> {
    /// Adds the time for which the run that ends held the cores.
    pub(super) fn bill(&mut self) -> Result<(), StoreError> {
        let until = if self.is_past { self.last_report()? } else { Some(self.now.wall) };
        let Some((until, since)) = until.zip(self.job.place_time) else { return Ok(()) };
        // What is restored has the times of its log. The clock may have been set since a run that ends now began.
        let since =
            if self.is_past { since } else { until.saturating_sub(self.job.held(self.now)) };
        self.job.billed_seconds += until.saturating_sub(since).max(0) as f64 / 1e6;
        match self.job.cores.len() {
            // A cluster's cores are none of this host's.
            0 => Ok(()),
            cores => {
                let (user, half_life) = (&self.job.owner, self.half_life);
                usage::add_run(self.connection, user, cores, since, until, half_life)
            }
        }
    }

    /// The time of the runner's newest event, in microseconds since 1970.
    fn last_report(&self) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT event FROM events WHERE job = ?1 ORDER BY sequence DESC LIMIT 16";
        let read = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            let events = statement.query_map([self.job.number], |row| row.get::<_, Vec<u8>>(0))?;
            events.collect::<rusqlite::Result<Vec<_>>>()
        };
        let events = read().map_err(StoreError::sqlite("read the newest events"))?;
        let events = events.iter().filter_map(|bytes| v1::Event::decode(bytes.as_slice()).ok());
        let is_own = |event: &v1::Event| {
            matches!(event.kind, Some(Kind::StateChanged(_) | Kind::Waiting(_) | Kind::Prepared(_)))
        };
        let newest = events.into_iter().find(|event| !is_own(event));
        Ok(newest.and_then(|event| event.time).as_ref().map(clock::micros))
    }
}
