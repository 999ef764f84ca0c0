//! Runs the passes of generation with the trained parameters.

use traind_loader::BatchSizes;
use traind_xla::mesh::Coordinates;
use traind_xla::runtime::{HostArray, Variable};

use super::Session;
use crate::error::Result;
use crate::step::{Program, ProgramShape, SCORES};

impl Session {
    /// Runs a pass of each data shard with its inputs; returns each shard's scores.
    pub fn run_pass(
        &mut self,
        program: Program,
        sizes: BatchSizes,
        inputs: &[Vec<HostArray>],
    ) -> Result<Vec<Vec<f32>>> {
        let cores = self.devices[0].cores().clone();
        let mut buffers = Vec::with_capacity(cores.len());
        for (core, at) in cores.coordinates().enumerate() {
            let arrays = inputs[at.data].iter().map(|array| cores.upload(core, array));
            buffers.push(arrays.collect::<Result<_, _>>()?);
        }
        let fetched = self.launch(ProgramShape::of_batch(program, sizes), &buffers)?.fetch();
        self.observer.finished();
        let fetched = fetched?;
        let scores = (0..inputs.len()).map(|shard| {
            let core = cores.core_at(Coordinates::of_data_shard(shard))?;
            Ok(fetched.per_core(SCORES)?[core].to_f32()?)
        });
        scores.collect()
    }

    /// Makes room for the cache of batches of `sizes`, in place of those of others.
    pub fn start_cache(&mut self, sizes: &BatchSizes) -> Result<()> {
        let own: Vec<Variable> = self.caches(Some(sizes));
        if own.iter().all(|variable| self.devices[0].has_value(*variable)) {
            return Ok(());
        }
        self.clear_caches();
        for variable in own {
            let zeros = HostArray::zeros(self.devices[0].shape(variable).clone());
            self.devices[0].set(variable, &zeros)?;
        }
        Ok(())
    }

    /// Frees the memory of all caches.
    pub fn clear_caches(&mut self) {
        for variable in self.caches(None) {
            self.devices[0].clear(variable);
        }
    }

    /// The variables of the caches, of all batches or of those of one size.
    fn caches(&self, sizes: Option<&BatchSizes>) -> Vec<Variable> {
        self.programs.generate.iter().flat_map(|step| step.caches(sizes)).collect()
    }
}
