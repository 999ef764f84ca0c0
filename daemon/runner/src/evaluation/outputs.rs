//! Gathers what the cores computed of a split, in dataset order.

use traind_loader::GatherInOrder;
use traind_xla::mesh::Coordinates;
use traind_xla::runtime::{Fetched, LocalCores};

use crate::error::RunResult;
use crate::session::UploadedBatch;
use crate::step::{LOSS_SUM, Readout, RowOutput, WEIGHT_SUM, scalar};

/// What the cores computed of a split.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outputs {
    /// In dataset order.
    pub rows: Vec<RowOutput>,
    loss_sum: f64,
    /// Of the rows or tokens that have a label; 0 in a split without labels.
    pub weight_sum: f64,
    /// Of those whose label has the largest logit, where that is counted.
    pub correct_sum: f64,
}

impl Outputs {
    /// The mean loss; `None` without labels.
    pub(crate) fn loss(&self) -> Option<f64> {
        (self.weight_sum > 0.0).then(|| self.loss_sum / self.weight_sum)
    }

    /// The values of all rows, end to end.
    pub(crate) fn values(&self) -> Vec<f32> {
        self.rows.iter().flat_map(|row| row.values.iter().copied()).collect()
    }
}

/// Takes the results of batches in any order.
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

    /// Of the cores that see the same rows, the first is read.
    pub(super) fn add(
        &mut self,
        cores: &LocalCores,
        batch: &UploadedBatch,
        fetched: &Fetched,
    ) -> RunResult<()> {
        let plan = &batch.host.scheduled.plan;
        for shard in 0..plan.cores {
            let core = cores.core_at(Coordinates::of_data_shard(shard))?;
            let spans = &batch.host.cores[shard].spans;
            let rows = self.readout.rows(fetched, core, spans)?;
            self.rows.place(plan, shard, rows)?;
            if self.labelled {
                self.sums.loss_sum += scalar(&fetched.per_core(LOSS_SUM)?[core])?;
                self.sums.weight_sum += scalar(&fetched.per_core(WEIGHT_SUM)?[core])?;
                self.sums.correct_sum += self.readout.correct_sum(fetched, core)?;
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> RunResult<Outputs> {
        Ok(Outputs { rows: self.rows.finish()?, ..self.sums })
    }
}
