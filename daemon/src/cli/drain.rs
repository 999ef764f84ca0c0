//! `traind drain`.

use traind_proto::v1::DrainRequest;

use super::Global;
use super::connect::client;
use super::exit::Exit;

/// Stop the daemon and its jobs, with checkpoints; the jobs resume when it is back
#[derive(clap::Args)]
pub(crate) struct Drain {
    /// Reason to record in the jobs' histories
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,
}

impl Drain {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        let mut admin = client::admin(&global).await?;
        let request = DrainRequest { reason: self.reason };
        let mut left = admin.drain(request).await?.into_inner();
        while let Some(message) = left.message().await? {
            match message.running {
                0 => println!("drained"),
                running => println!("{running} running"),
            }
        }
        Ok(Exit::Done)
    }
}
