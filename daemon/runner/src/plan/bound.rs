//! The time that a step takes at least on a mesh, before any program is recorded: that of its dots, of the
//! sums that cores which share layers exchange, and of gathering and adding up the parameters of layers.

use traind_job_file::JobFile;
use traind_models::{Lengths, Stage};
use traind_xla::mesh::Axis;

use super::PlannedModel;
use super::meshes::Machine;
use crate::error::RunResult;
use crate::recipe::{self, mesh};
use crate::state::{Pipeline, SHARDED_ELEMENTS_MIN};
use crate::step::PipelineOrder;

/// All-reduces of activations that cores which share a layer make at least, forward and backward.
const SUMS_PER_LAYER: f64 = 4.0;
/// Bytes of an element of gradients.
const FLOAT: f64 = 4.0;
/// The bytes of an element that may be in half precision.
const HALF: f64 = 2.0;

impl Machine {
    /// The time that a step takes at least.
    pub(super) fn least_seconds(&self, job: &JobFile, planned: &PlannedModel) -> RunResult<f64> {
        let pipeline = recipe::pipeline(job, planned.model.as_ref())?;
        let rows = job.train.per_device_train_batch_size as usize;
        let pipeline_order = PipelineOrder::of(&pipeline, rows);
        let batches = f64::from(job.train.gradient_accumulation_steps);
        let layers = pipeline.largest_stage() as f64;
        let dots = self.dots_seconds(job, planned, &pipeline)?;
        let sums = batches * layers * self.sums_seconds(job, planned, &pipeline)?;
        let passes = (dots + sums) * (1.0 + pipeline_order.idle_share());
        let shards = layers
            * self.shard_seconds(job, planned, batches * pipeline_order.microbatches as f64)?;
        Ok(passes + shards)
    }

    /// The seconds of the all-reduces of a layer for the rows of a batch.
    fn sums_seconds(
        &self,
        job: &JobFile,
        planned: &PlannedModel,
        pipeline: &Pipeline,
    ) -> RunResult<f64> {
        let cores = f64::from(job.parallel.tensor);
        if cores == 1.0 {
            return Ok(0.0);
        }
        let [positions, target_positions] = planned.lengths(job)?.map(|length| length as usize);
        let rows = job.train.per_device_train_batch_size as usize;
        let lengths = Lengths { positions, target_positions, predicted_positions: 0 };
        let states = pipeline.chunks.state_shapes(planned.model.as_ref(), rows, lengths, 1)?;
        // An encoder's layers have the states of sources, a decoder's those of targets.
        let elements = states.iter().map(|shape| shape.element_count()).min().unwrap_or(0);
        let bytes = SUMS_PER_LAYER * 2.0 * (cores - 1.0) / cores * HALF * elements as f64;
        Ok(bytes / self.rate(&mesh(job)?.groups(&[Axis::Tensor])[0]))
    }

    /// The seconds in which parameters and gradients of a layer are exchanged over the `data` axis.
    fn shard_seconds(
        &self,
        job: &JobFile,
        planned: &PlannedModel,
        microbatches: f64,
    ) -> RunResult<f64> {
        let mesh = mesh(job)?;
        let cores = mesh.size(Axis::Data) as f64;
        if cores == 1.0 {
            return Ok(0.0);
        }
        let (all, trained) = layer_elements(planned, job.parallel.tensor as usize);
        let sent = match job.parallel.sharding() {
            sharding if sharding.shards_parameters() => {
                microbatches * (2.0 * HALF * all + FLOAT * trained)
            }
            _ => 2.0 * FLOAT * trained,
        };
        let bytes = (cores - 1.0) / cores * sent / f64::from(job.parallel.tensor);
        Ok(bytes / self.rate(&mesh.groups(&[Axis::Data])[0]))
    }
}

/// The elements of a layer's large parameters, of the smallest layer, and of those that are trained.
fn layer_elements(planned: &PlannedModel, tensor: usize) -> (f64, f64) {
    let model = planned.model.as_ref();
    let mut elements = vec![[0; 2]; model.num_layers()];
    for spec in model.parameters() {
        let count = spec.shape.element_count();
        if let ([Stage::Layer(layer)], true) =
            (&spec.stages[..], count >= SHARDED_ELEMENTS_MIN * tensor)
        {
            elements[*layer][0] += count;
            elements[*layer][1] += if spec.trainable { count } else { 0 };
        }
    }
    let least = |of: usize| elements.iter().map(|it| it[of]).min().unwrap_or(0) as f64;
    (least(0), least(1))
}

#[cfg(test)]
mod tests {
    use crate::plan::candidates::candidates;
    use crate::plan::candidates::tests::job;
    use crate::plan::meshes::tests::{CORE, planned};

    use super::*;

    #[test]
    fn no_mesh_is_faster_than_its_bound() {
        let job = job("resources: {cores: 8}\ntrain: {gradient_accumulation_steps: 2}");
        let planned = planned(&job);
        let machine = Machine { core: CORE, per_host: 4, price: 0.0, rows: 0 };
        let found = candidates(&job, 8, 2);
        assert!(found.len() > 40);
        for job in found.into_iter().filter(|job| job.parallel.tensor < 8) {
            let least = machine.least_seconds(&job, &planned).unwrap();
            let step = machine.plan(&job, &planned, None).unwrap().step_seconds;
            assert!(least > 0.0 && least <= step, "{:?}: {least} {step}", job.parallel);
        }
    }
}
