//! Jobs that a cluster places.

mod kubernetes;
mod restored;
mod slurm;

use traind_proto::v1::Event;
use traind_proto::v1::event::Kind;

/// The reasons for which a job has waited.
fn waits(events: &[Event]) -> Vec<&str> {
    let waiting = events.iter().filter_map(|event| match &event.kind {
        Some(Kind::Waiting(waiting)) => Some(waiting.reason.as_str()),
        _ => None,
    });
    waiting.collect()
}
