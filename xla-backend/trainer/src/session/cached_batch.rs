//! Passes batches through the model in parts whose embeddings are compared all together.

use traind_xla::runtime::Pending;

use super::{Session, UploadedBatch};
use crate::error::Result;
use crate::step::{Program, ProgramShape};

impl Session {
    /// Launches the programs of a batch: the embeddings of its parts, their loss, and the backward passes of the parts.
    pub(super) fn pass_cached_batch(&mut self, batch: &UploadedBatch) -> Result<Vec<Pending>> {
        let Some(cache) = self.programs.gradient_cache() else { return Ok(Vec::new()) };
        let sizes = cache.part_sizes(batch.sizes());
        let plan = &batch.host.scheduled.plan;
        // Parts without a row on any core have no loss. All hosts know the rows of all cores.
        let rows = (0..plan.cores).map(|core| plan.rows_of_core(core).len()).max().unwrap_or(0);
        let parts = &batch.inputs[0][..rows.div_ceil(sizes.rows()).max(1)];
        let mut programs = Vec::with_capacity(2 * parts.len() + 1);
        for part in parts {
            programs.push(self.launch(ProgramShape::of_batch(Program::Embed, sizes), part)?);
        }
        let no_inputs = (0..self.devices[0].cores().len()).map(|_| Vec::new()).collect();
        programs.push(self.launch(ProgramShape::compare(&sizes), &no_inputs)?);
        for part in parts {
            programs.push(self.launch(ProgramShape::of_batch(Program::Accumulate, sizes), part)?);
        }
        Ok(programs)
    }
}
