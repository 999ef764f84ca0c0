//! Streams of the events that one host of a job has logged, read from its log in the run folder a chunk at a time.

use std::sync::Arc;
use std::time::Duration;

use traind_proto::event_log::{EventLogError, LoggedEvent};
use traind_proto::v1;

use crate::control::daemon::Daemon;
use crate::control::error::Error;
use crate::interfaces::server::quota::Permit;
use crate::interfaces::server::stream::{self, Messages, Sender};
use crate::jobs::run_dir::RunDir;
use crate::jobs::store::{Job, Store};

const CHANNEL: usize = 32;
/// The time between two looks at a log that may grow.
const PERIOD: Duration = Duration::from_millis(500);

/// Refuses a host that the job does not have.
pub(crate) fn check(job: &Job, host: u32) -> Result<(), Error> {
    if host < job.hosts {
        return Ok(());
    }
    let last = job.hosts.saturating_sub(1);
    let description = format!("is {host}, and the job's hosts are 0 to {last}");
    Err(Error::Request { field: "host", description })
}

/// Streams the events of `host` with a permit of its reader, up to the newest one, or with `follow` to the job's end.
pub(crate) fn events(
    daemon: Arc<Daemon>,
    job: Job,
    host: u32,
    follow: bool,
    permit: Permit,
) -> Messages<v1::Event> {
    stream::fed(daemon.closing.clone(), CHANNEL, |sender| async move {
        let fed = feed(&daemon, &job, host, follow, &sender).await;
        drop(permit);
        fed
    })
}

async fn feed(
    daemon: &Daemon,
    job: &Job,
    host: u32,
    follow: bool,
    sender: &Sender<v1::Event>,
) -> Result<(), Error> {
    let run_dir = RunDir::new(&daemon.settings.state_dir, &job.id);
    let mut offset = 0;
    loop {
        let (id, run_dir) = (job.id.clone(), run_dir.clone());
        let read = move |store: &Store| read(store, &id, &run_dir, host, offset);
        let (has_ended, events) = daemon.store.run(read).await?;
        if events.is_empty() {
            if has_ended || !follow {
                return Ok(());
            }
            tokio::time::sleep(PERIOD).await;
        }
        for LoggedEvent { event, next_offset } in events {
            offset = next_offset;
            if sender.send_of_any_size(event).await.is_err() {
                return Ok(());
            }
        }
    }
}

/// Reads the job before the log, so that the last events are not missed.
fn read(
    store: &Store,
    id: &str,
    run_dir: &RunDir,
    host: u32,
    offset: u64,
) -> Result<(bool, Vec<LoggedEvent>), Error> {
    let has_ended = store.get(id)?.state.is_terminal();
    let log = match host {
        0 => run_dir.open_events_log(),
        host => run_dir.open_host_events_log(host),
    };
    let events = match log.and_then(|log| log.read_batch(offset)) {
        // The runner is about to write it.
        Err(EventLogError::Io { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound && !has_ended =>
        {
            Vec::new()
        }
        // A runner that died left an event incomplete.
        Err(EventLogError::Corrupt { .. }) if offset > 0 => Vec::new(),
        events => events.map_err(Error::HostLog)?,
    };
    Ok((has_ended, events))
}
