//! Collects the results of an evaluation in dataset order.

use traind_loader::GatherInOrder;
use traind_xla::runtime::Fetched;

use crate::error::RunResult;
use crate::session::UploadedBatch;
use crate::step::{LOSS_DIVISOR, LOSS_SUM, Readout, RowOutput, WEIGHT_SUM, scalar};
use crate::tasks::Outputs;

pub(super) struct Gathering {
    readout: Readout,
    labelled: bool,
    rows: GatherInOrder<RowOutput>,
    sums: Outputs,
}

impl Gathering {
    pub(super) fn new(readout: Readout, labelled: bool, rows: usize) -> Gathering {
        let rows = GatherInOrder::new(rows);
        Gathering { readout, labelled, rows, sums: Outputs::default() }
    }

    /// Adds the results of a batch, of which `fetched` has those of each data shard. Batches may come in
    /// any order.
    pub(super) fn add(&mut self, batch: &UploadedBatch, fetched: &Fetched) -> RunResult<()> {
        let plan = &batch.host.scheduled.plan;
        let (mut loss_sum, mut divisor) = (0.0, 0.0);
        for shard in 0..plan.cores {
            let spans = &batch.host.cores[shard].spans;
            let rows = self.readout.rows(fetched, shard, spans)?;
            self.rows.place(plan, shard, rows)?;
            if self.labelled {
                loss_sum += scalar(&fetched.per_core(LOSS_SUM)?[shard])?;
                divisor += scalar(&fetched.per_core(LOSS_DIVISOR)?[shard])?;
                self.sums.weight_sum += scalar(&fetched.per_core(WEIGHT_SUM)?[shard])?;
                self.sums.correct_sum += self.readout.correct_sum(fetched, shard)?;
            }
        }
        self.sums.loss.add(loss_sum, divisor, plan.rows.len());
        Ok(())
    }

    /// Fails where a row has no result.
    pub(super) fn finish(self) -> RunResult<Outputs> {
        Ok(Outputs { rows: self.rows.finish()?, ..self.sums })
    }
}
