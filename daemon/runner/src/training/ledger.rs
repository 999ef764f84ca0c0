//! The record of the rows that each step used.

use std::path::{Path, PathBuf};

use traind_proto::sample_ledger::{LedgerHead, SampleLedger};

use crate::error::RunResult;
use crate::output::failed;

pub(crate) struct Ledger {
    ledger: SampleLedger,
    run_dir: PathBuf,
}

impl Ledger {
    pub(crate) fn open(run_dir: &Path, head: LedgerHead) -> RunResult<Ledger> {
        let ledger = SampleLedger::open(run_dir, head)
            .map_err(failed("open the sample ledger in", run_dir))?;
        Ok(Ledger { ledger, run_dir: run_dir.to_owned() })
    }

    /// Writes the rows of `step`, which counts from 1.
    pub(super) fn write(&self, step: u64, source_rows: &[u32]) -> RunResult<()> {
        let written = self.ledger.write(step, source_rows);
        written.map_err(failed("write the sample ledger in", &self.run_dir))
    }
}
