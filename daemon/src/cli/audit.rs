//! `traind audit`.

use anyhow::Context;
use traind_proto::v1::ReadAuditRequest;

use super::Global;
use super::connect::client;
use super::exit::Exit;
use crate::access::audit::Chain;

/// Print the audit log, a line of JSON for every call that changes something, and verify its chain
#[derive(clap::Args)]
pub(crate) struct Audit {
    /// Number of the first entry
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    from: u64,
    /// Only verify the chain
    #[arg(long)]
    verify: bool,
}

impl Audit {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        let mut admin = client::admin(&global).await?;
        let (mut chain, mut from) = (Chain::default(), self.from);
        loop {
            let page = admin.read_audit(ReadAuditRequest { from }).await?.into_inner();
            if page.lines.is_empty() {
                break;
            }
            for line in &page.lines {
                if !self.verify {
                    println!("{line}");
                }
                chain.check(line).context("verify the audit log")?;
            }
            from = chain.last().map_or(from, |(number, _)| number + 1);
        }
        if self.verify {
            match chain.last() {
                Some((number, hash)) => println!("intact up to entry {number}, {hash}"),
                None => println!("the audit log is empty"),
            }
        }
        Ok(Exit::Done)
    }
}
