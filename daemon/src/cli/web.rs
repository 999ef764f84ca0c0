//! `traind web`.

use traind_proto::v1::CreateLoginRequest;

use super::Global;
use super::connect::client;
use super::exit::Exit;

/// Print a URL that logs your browser in to the daemon's web page
#[derive(clap::Args)]
pub(crate) struct Web {}

impl Web {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        let mut web = client::web(&global).await?;
        let url = web.create_login(CreateLoginRequest {}).await?.into_inner().url;
        eprintln!(
            "Open this URL within a minute; it works once. From another machine, first forward"
        );
        eprintln!("its port: ssh -L PORT:127.0.0.1:PORT THIS_HOST");
        println!("{url}");
        Ok(Exit::Done)
    }
}
