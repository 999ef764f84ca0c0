//! The rows of a step, from the ledger in the run folder.

use std::io::{self, ErrorKind};

use traind_proto::sample_ledger::SampleLedger;
use traind_proto::v1;

use crate::control::error::Error;
use crate::jobs::run_dir::RunDir;

/// Returns the rows that a job trained on in `step`, counted from 1.
pub(super) async fn of_step(run_dir: &RunDir, step: u64) -> Result<v1::Samples, Error> {
    let run_dir = run_dir.clone();
    let found = tokio::task::spawn_blocking(move || read(&run_dir, step)).await;
    let found = found.map_err(io::Error::other).and_then(|found| found).map_err(Error::Ledger)?;
    found.ok_or_else(|| Error::Request {
        field: "step",
        description: format!("the job has not completed step {step}"),
    })
}

fn read(run_dir: &RunDir, step: u64) -> io::Result<Option<v1::Samples>> {
    let file = match run_dir.open(&run_dir.samples()) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let Some(ledger) = SampleLedger::of_file(file)?.filter(|_| step > 0) else { return Ok(None) };
    let rows = ledger.step(step)?;
    let samples: Vec<v1::Sample> =
        rows.iter().map(|row| v1::Sample { file: row.file as u32, row: row.row }).collect();
    let head = ledger.head();
    let files = head.files.iter().map(|(path, _)| path.clone()).collect();
    let sets = head.sets.clone();
    Ok((!samples.is_empty()).then_some(v1::Samples { step, files, samples, sets }))
}
