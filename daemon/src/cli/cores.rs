//! `traind cores`.

use std::io::IsTerminal;

use traind_proto::v1;

use super::exit::Exit;
use super::output::{bytes, phase, print_table};
use super::{Global, client};

/// Show the host's cores and what they do
#[derive(clap::Args)]
pub(crate) struct Cores {
    /// Show them again every second
    #[arg(long, short)]
    watch: bool,
}

impl Cores {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        let mut cores = client::cores(&global).await?;
        if !self.watch {
            let reply = cores.list_cores(v1::ListCoresRequest::default()).await?.into_inner();
            print(&reply.cores);
            return Ok(Exit::Done);
        }
        let request = v1::WatchCoresRequest::default();
        let mut readings = cores.watch_cores(request).await?.into_inner();
        loop {
            let reading = tokio::select! {
                reading = readings.message() => reading?,
                interrupted = tokio::signal::ctrl_c() => return interrupted.map(|()| Exit::Done).map_err(Into::into),
            };
            let Some(reading) = reading else { return Ok(Exit::Done) };
            clear_screen();
            print(&reading.cores);
        }
    }
}

fn print(cores: &[v1::Core]) {
    let header = ["CORE", "DEVICE", "JOB", "NAME", "PHASE", "UTIL 1S", "UTIL 1M", "MEMORY", "STEP"];
    let rows: Vec<Vec<String>> = cores.iter().map(row).collect();
    print_table(&header, &rows);
}

fn row(core: &v1::Core) -> Vec<String> {
    let mut row = vec![
        format!("{}:{}", core.platform, core.core),
        core.device.clone(),
        core.job_id.clone(),
        core.job_name.clone(),
    ];
    if let Some(usage) = &core.usage {
        row.extend([
            phase(usage.phase()),
            format!("{:.0} %", usage.utilization_percent_1s),
            format!("{:.0} %", usage.utilization_percent_1m),
            bytes(usage.memory_used_bytes),
            usage.step.to_string(),
        ]);
    }
    row
}

/// On a terminal each reading takes the place of the one before.
fn clear_screen() {
    if std::io::stdout().is_terminal() {
        print!("\x1b[2J\x1b[H");
    }
}
