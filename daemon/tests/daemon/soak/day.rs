//! A day of traffic: jobs of many events, all of which are watched. The daemon needs as much memory at the end as at
//! the beginning.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tokio::task::JoinSet;
use traind_proto::event_log::EventLogWriter;
use traind_proto::v1::JobState;
use traind_proto::v1::event::Kind;

use super::count;
use super::crowd::resident_bytes;
use crate::jobs::planning::plan;
use crate::support::host::Host;
use crate::support::runner::step;

/// The steps of a job, which has about 100 events with those of its life.
const STEPS: u64 = 96;
const TOGETHER: usize = 8;
/// The traffic is measured so many times.
const PARTS: usize = 10;
/// The memory that may be added from the end of the first part to the end of the last one.
const GROWTH_MAX: u64 = 32 << 20;

/// Writes the events of all steps into one file.
fn write_steps(path: &Path) {
    let mut log = EventLogWriter::open(path).unwrap();
    for number in 1..=STEPS {
        let Kind::Step(step) = step(number.min(crate::support::runner::STEPS)) else { continue };
        log.append(Kind::Step(traind_proto::v1::Step { step: number, max_steps: STEPS, ..step }))
            .unwrap();
    }
}

/// Submits a job and watches it to its end. Returns the number of its events.
async fn watched(host: Arc<Host>, name: String) -> usize {
    let job = host.submit(&name, 1).await;
    let events = host.events(&job.id, 1).await.len();
    assert_eq!(host.get(&job.id).await.state(), JobState::Completed, "{name}");
    events
}

#[tokio::test]
async fn a_day_of_traffic_leaves_the_memory_as_it_was() {
    let jobs = count("TRAIND_SOAK_DAY", 40);
    let host = Host::started(TOGETHER as u32, "say started; say steps; say completed").await;
    write_steps(&host.path("frames/steps"));
    fs::write(host.path("plan.json"), json!({"plan": plan()}).to_string()).unwrap();
    let host = Arc::new(host);
    let (mut resident, mut events, mut running) = (Vec::new(), 0, JoinSet::new());
    for number in 0..jobs {
        running.spawn(watched(Arc::clone(&host), format!("day-{number}")));
        if running.len() == TOGETHER {
            events += running.join_next().await.unwrap().unwrap();
        }
        if (number + 1) * PARTS / jobs > resident.len() {
            resident.push(resident_bytes(host.daemon_pid()));
        }
    }
    events += running.join_all().await.into_iter().sum::<usize>();
    let (first, last) = (resident[0], resident[PARTS - 1]);
    let most = resident.iter().max().unwrap();
    println!(
        "{jobs} watched jobs with {events} events: {} MiB in memory after a tenth, {} MiB at the end, at most {} MiB",
        first >> 20,
        last >> 20,
        most >> 20
    );
    assert!(events >= jobs * STEPS as usize, "{events}");
    assert!(last <= first + GROWTH_MAX, "{resident:?}");
}
