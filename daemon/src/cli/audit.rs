//! `traind audit`.

use anyhow::Context;
use traind_proto::v1::ReadAuditRequest;
use traind_proto::v1::admin_client::AdminClient;

use super::Global;
use super::connect::client::{self, Connection};
use super::exit::Exit;
use crate::access::audit::Chain;

/// Print the audit log, a line of JSON for every call that changes something, and verify its chain
#[derive(clap::Args)]
pub(crate) struct Audit {
    /// Number of the first entry
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    from: u64,
    /// The overflow, which has the lines of users who have filled their part of the log
    #[arg(long)]
    overflow: bool,
    /// Only verify the chain
    #[arg(long)]
    verify: bool,
}

impl Audit {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        let mut admin = client::admin(&global).await?;
        let chain = self.read(&mut admin, self.overflow).await?;
        if !self.verify {
            return Ok(Exit::Done);
        }
        match chain.last() {
            Some((number, hash)) => println!("intact up to entry {number}, {hash}"),
            None if self.overflow => println!("the overflow of the audit log is empty"),
            None => println!("the audit log is empty"),
        }
        Ok(Exit::Done)
    }

    /// Reads a part of the log to its end, and verifies it.
    async fn read(
        &self,
        admin: &mut AdminClient<Connection>,
        overflow: bool,
    ) -> anyhow::Result<Chain> {
        let (mut chain, mut from) = (Chain::default(), self.from);
        loop {
            let page = admin.read_audit(ReadAuditRequest { from, overflow }).await?.into_inner();
            if page.lines.is_empty() {
                return Ok(chain);
            }
            for line in &page.lines {
                if !self.verify {
                    println!("{line}");
                }
                chain.check(line).context("verify the audit log")?;
            }
            from = chain.last().map_or(from, |(number, _)| number + 1);
        }
    }
}
