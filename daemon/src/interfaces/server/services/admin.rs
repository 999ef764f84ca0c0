//! `traind.v1.Admin`.

use std::sync::Arc;
use std::time::Duration;

use tonic::{Request, Response, Status};
use traind_proto::v1::{DrainRequest, DrainResponse, admin_server};

use crate::control::daemon::Daemon;
use crate::control::error::Error;
use crate::interfaces::server::guard::peer;
use crate::interfaces::server::stream::{self, Messages, Sender};

const PERIOD: Duration = Duration::from_millis(100);

pub(crate) struct Admin {
    daemon: Arc<Daemon>,
}

impl Admin {
    pub(crate) fn new(daemon: Arc<Daemon>) -> Admin {
        Admin { daemon }
    }
}

#[tonic::async_trait]
impl admin_server::Admin for Admin {
    type DrainStream = Messages<DrainResponse>;

    async fn drain(
        &self,
        request: Request<DrainRequest>,
    ) -> Result<Response<Self::DrainStream>, Status> {
        let by = peer::caller(&request)?.user;
        let reason = match request.into_inner().reason {
            reason if reason.is_empty() => format!("drained by {by}"),
            reason => format!("drained by {by}: {reason}"),
        };
        self.daemon.drain(&reason);
        let (sender, receiver) = stream::channel(1);
        tokio::spawn(count_down(self.daemon.clone(), sender));
        Ok(Response::new(receiver))
    }
}

async fn count_down(daemon: Arc<Daemon>, sender: Sender<DrainResponse>) {
    let mut last = None;
    while last != Some(0) {
        // Checked first: a daemon that closes for another reason follows no runners either.
        let closing = daemon.closing.is_cancelled();
        let running = match daemon.drained.is_cancelled() {
            true => 0,
            false if closing => return drop(sender.send(Err(Error::ShuttingDown.into())).await),
            false => daemon.runner_count().max(1) as u32,
        };
        if last.replace(running) != Some(running)
            && sender.send(Ok(DrainResponse { running })).await.is_err()
        {
            return;
        }
        tokio::time::sleep(PERIOD).await;
    }
}
