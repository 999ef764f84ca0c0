//! Streaming a job's events: read from the store a page at a time, as fast as the
//! client takes them, so that a slow reader costs a channel and no memory.

use std::sync::Arc;

use traind_proto::v1::{self, event::Kind};

use crate::control::daemon::Daemon;
use crate::control::error::Error;
use crate::interfaces::server::stream::{self, Messages, Sender};
use crate::jobs::store::{Job, Store, StoreError};
use crate::jobs::wire;

const PAGE: usize = 256;
const CHANNEL: usize = 32;

/// The events of `job` with sequence `from` and on, up to the one that ends it.
pub(crate) fn events(daemon: Arc<Daemon>, job: Job, from: u64) -> Messages<v1::Event> {
    let (sender, receiver) = stream::channel(CHANNEL);
    tokio::spawn(async move {
        tokio::select! {
            // The reader left.
            () = sender.closed() => {}
            () = daemon.closing.cancelled() => {
                let _ = sender.send(Err(Error::ShuttingDown.into())).await;
            }
            result = feed(&daemon, &job, from, &sender) => if let Err(error) = result {
                let _ = sender.send(Err(error.into())).await;
            }
        }
    });
    receiver
}

async fn feed(
    daemon: &Daemon,
    job: &Job,
    mut from: u64,
    sender: &Sender<v1::Event>,
) -> Result<(), Error> {
    // Before the first look, so that no event falls between look and wait.
    let mut news = daemon.store.subscribe(job);
    loop {
        let (number, id) = (job.number, job.id.clone());
        let (now, page) = daemon.store.run(move |store| look(store, &id, number, from)).await?;
        if page.is_empty() {
            // Past the last event there is nothing to wait for once the job is over.
            if now.state.is_terminal() && from > now.last_sequence {
                return Ok(());
            }
            news.changed().await;
        }
        for event in page {
            from = event.sequence + 1;
            let last = ends_job(&event);
            if sender.send(Ok(event)).await.is_err() || last {
                return Ok(());
            }
        }
    }
}

/// The job is read before its events, so that no end goes unseen between the two.
fn look(
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
