//! `traind samples`.

use traind_proto::v1;

use super::Global;
use super::connect::client;
use super::exit::Exit;

/// Print the rows that a step trained on, as file and row, in batch order; with several sets, also the
/// number of each row's set. A packed row or a block of several texts is named by the first
#[derive(clap::Args)]
pub(crate) struct Samples {
    /// The job's id, a prefix of it, or its name
    job: String,
    /// The step, counted from 1
    #[arg(long)]
    step: u64,
}

impl Samples {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        let mut jobs = client::jobs(&global).await?;
        let request = v1::GetSamplesRequest { job_id: self.job, step: self.step };
        let samples = jobs.get_samples(request).await?.into_inner();
        for sample in &samples.samples {
            let file = samples.files.get(sample.file as usize).map_or("", String::as_str);
            match samples.sets.get(sample.file as usize) {
                Some(set) => println!("{file}\t{}\t{set}", sample.row),
                None => println!("{file}\t{}", sample.row),
            }
        }
        Ok(Exit::Done)
    }
}
