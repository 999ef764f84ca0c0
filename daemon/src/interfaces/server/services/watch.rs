//! Streams of a job's events, read from the store a page at a time, so that a slow client needs
//! no memory for its backlog.

use std::sync::Arc;

use traind_proto::v1::{self, event::Kind};

use crate::control::daemon::Daemon;
use crate::control::error::Error;
use crate::interfaces::server::stream::{self, Messages, Sender};
use crate::jobs::store::{Job, Store, StoreError};
use crate::jobs::wire;

const PAGE: usize = 256;
const CHANNEL: usize = 32;

/// Streams the events of `job` from sequence `from` on, up to the one that ends the job.
pub(crate) fn events(daemon: Arc<Daemon>, job: Job, from: u64) -> Messages<v1::Event> {
    stream::fed(daemon.closing.clone(), CHANNEL, |sender| async move {
        feed(&daemon, &job, from, &sender).await
    })
}

async fn feed(
    daemon: &Daemon,
    job: &Job,
    mut from: u64,
    sender: &Sender<v1::Event>,
) -> Result<(), Error> {
    // Subscribed before the first read, so that no event is missed in between.
    let mut subscription = daemon.store.subscribe(job);
    loop {
        let (number, id) = (job.number, job.id.clone());
        let (now, page) = daemon.store.run(move |store| read(store, &id, number, from)).await?;
        if page.is_empty() {
            // A finished job has no events past its last one.
            if now.state.is_terminal() && from > now.last_sequence {
                return Ok(());
            }
            subscription.changed().await;
        }
        for event in page {
            from = event.sequence + 1;
            let last = ends_job(&event);
            if sender.send_of_any_size(event).await.is_err() || last {
                return Ok(());
            }
        }
    }
}

/// Reads the job before its events, so that its end is not missed in between.
fn read(
    store: &Store,
    id: &str,
    number: i64,
    from: u64,
) -> Result<(Job, Vec<v1::Event>), StoreError> {
    let job = store.get(id)?;
    Ok((job, store.events(number, from, PAGE)?))
}

fn ends_job(event: &v1::Event) -> bool {
    let Some(Kind::StateChanged(changed)) = &event.kind else { return false };
    wire::job_state_from_proto(changed.to()).is_some_and(|state| state.is_terminal())
}
