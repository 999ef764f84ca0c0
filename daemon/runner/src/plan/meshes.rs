//! The costs of a job's step on a mesh. The prediction is a sum: of the dots at a share of the device's peak, of the
//! update at the rate of memory, of each collective at the rate of the slowest link that its group needs, and of the
//! time that stages are idle. Nothing overlaps.

use traind_job_file::commands::{CoreMemory, MeshPlan};
use traind_job_file::{JobFile, Train};
use traind_loader::BatchAxis;
use traind_models::Lengths;
use traind_xla::analysis::Collective;
use traind_xla::graph::Participants;
use traind_xla::mesh::{Axis, Coordinates, Mesh};

use super::PlannedModel;
use super::devices::Core;
use super::memory::{Recordings, Traffic as StageTraffic, batch_sizes};
use crate::error::RunResult;
use crate::progress::Timetable;
use crate::recipe::{self, mesh};
use crate::state::Pipeline;
use crate::step::{PipelineOrder, Program};

/// Bytes of one collective into which compilers combine smaller ones that do not depend on each other, as
/// those over `data` do not.
const COMBINED_BYTES: f64 = 32e6;

/// The machine that a mesh is planned for.
pub(super) struct Machine {
    pub core: Core,
    pub per_host: usize,
    /// The price of all hosts together, for an hour.
    pub price: f64,
    /// The rows of the training data; 0 where unknown.
    pub rows: u64,
}

impl Machine {
    pub(super) fn plan(
        &self,
        job: &JobFile,
        planned: &PlannedModel,
        bytes_max: Option<u64>,
    ) -> RunResult<MeshPlan> {
        let Recordings { memory, stages, pipeline_order, .. } = Recordings::of(job, planned)?;
        let (parallel, train, mesh) = (&job.parallel, &job.train, mesh(job)?);
        let traffic = self.traffic(&mesh, &stages, Repeats::of(train, &pipeline_order));
        let pipeline = recipe::pipeline(job, planned.model.as_ref())?;
        let passes = self.dots_seconds(job, planned, &pipeline)?;
        let update = self.update_seconds(&memory);
        let idle_seconds = pipeline_order.idle_share() * (passes + traffic.passes_seconds);
        let (compute_seconds, communication_seconds) = (passes + update, traffic.seconds());
        let step_seconds = compute_seconds + communication_seconds + idle_seconds;
        let hours = step_seconds * steps(job, self.rows)? as f64 / 3600.0;
        Ok(MeshPlan {
            data: job.data_parallel_size(),
            tensor: parallel.tensor,
            pipeline: parallel.pipeline,
            pipeline_interleave: parallel.pipeline_interleave,
            microbatches: pipeline_order.microbatches as u32,
            sequence_parallel: parallel.sequence_parallel,
            fsdp: parallel.fsdp.to_string(),
            gradient_checkpointing: train.gradient_checkpointing,
            per_device_train_batch_size: train.per_device_train_batch_size,
            gradient_accumulation_steps: train.gradient_accumulation_steps,
            compiled: false,
            fits: memory.fits(bytes_max),
            data_axis_bytes: traffic.data_bytes as u64,
            tensor_axis_bytes: traffic.tensor_bytes as u64,
            pipeline_axis_bytes: traffic.pipeline_bytes as u64,
            compute_seconds,
            communication_seconds,
            idle_seconds,
            step_seconds,
            rows_per_second: job.total_train_batch_size() as f64 / step_seconds,
            hours,
            price: hours * self.price,
            memory,
        })
    }

    /// The seconds of the dots of the largest stage: forward and twice backward, and forward again where
    /// activations are recomputed.
    pub(super) fn dots_seconds(
        &self,
        job: &JobFile,
        planned: &PlannedModel,
        pipeline: &Pipeline,
    ) -> RunResult<f64> {
        let (train, parallel) = (&job.train, &job.parallel);
        let sizes = batch_sizes(job, planned, train.per_device_train_batch_size)?;
        let lengths = Lengths {
            positions: sizes.get(BatchAxis::Positions),
            target_positions: sizes.get(BatchAxis::TargetPositions),
            predicted_positions: sizes.get(BatchAxis::PredictedPositions),
        };
        let rows = train.per_device_train_batch_size * train.gradient_accumulation_steps;
        let rows = rows as usize * job.sequences_per_row();
        let forward = planned.model.forward_flops(rows, lengths);
        let layers = planned.model.num_layers().max(1);
        let share = pipeline.largest_stage().max(1) as f64 / layers as f64;
        let again = u32::from(train.gradient_checkpointing) + u32::from(job.has_reference());
        let passes = f64::from(3 + again);
        Ok(passes * forward * share / f64::from(parallel.tensor) / self.core.flops)
    }

    /// The seconds of an update, which reads and writes weights and state.
    fn update_seconds(&self, memory: &CoreMemory) -> f64 {
        let moved = 2 * memory.weights_bytes + memory.gradients_bytes + 2 * memory.optimizer_bytes;
        moved as f64 / self.core.memory
    }

    /// Returns the traffic of the stage that sends the most of each kind. Stages send at the same time.
    fn traffic(&self, mesh: &Mesh, stages: &[StageTraffic], repeats: Repeats) -> Traffic {
        let all = stages.iter().map(|sent| self.stage_traffic(mesh, sent, repeats));
        all.reduce(Traffic::max).unwrap_or_default()
    }

    fn stage_traffic(&self, mesh: &Mesh, sent: &StageTraffic, repeats: Repeats) -> Traffic {
        let mut traffic = Traffic::default();
        for (program, collective, count) in &sent.collectives {
            let (times, seconds) = match program {
                Program::Accumulate => (repeats.microbatches, &mut traffic.passes_seconds),
                Program::Compare => (repeats.batches, &mut traffic.passes_seconds),
                _ => (1.0, &mut traffic.update_seconds),
            };
            let times = times * *count as f64;
            *seconds += times * self.seconds(collective, mesh, sent.stage);
            let bytes = times * collective.sent_bytes();
            if is_over_hosts(collective) || is_over(collective, mesh, Axis::Data) {
                traffic.data_bytes += bytes;
            } else if is_over(collective, mesh, Axis::Tensor) {
                traffic.tensor_bytes += bytes;
            }
        }
        let (latency, rate) = self.between_stages(mesh);
        let to_stages = |bytes: f64, times: f64| {
            let latencies = if bytes > 0.0 { times } else { 0.0 };
            latencies * latency + bytes / rate
        };
        let [batches, update] =
            [repeats.batches * sent.batch_bytes as f64, sent.update_bytes as f64];
        traffic.passes_seconds += to_stages(batches, 2.0 * repeats.microbatches);
        traffic.update_seconds += to_stages(update, 1.0);
        traffic.pipeline_bytes = batches + update;
        traffic
    }

    fn seconds(&self, collective: &Collective, mesh: &Mesh, stage: usize) -> f64 {
        let (bytes, crosses) = (collective.sent_bytes(), is_over_hosts(collective));
        let is_over_data = crosses || is_over(collective, mesh, Axis::Data);
        // Sums of gradients are not waited for before the update.
        let latencies = match self.core.combines || !gathers(collective) {
            true if is_over_data => (bytes / COMBINED_BYTES).min(1.0),
            _ => 1.0,
        };
        let (latency, rate) = match crosses {
            true => (self.core.network_latency, self.core.network),
            false => (self.core.latency, self.rate(&members(collective, mesh, stage))),
        };
        latencies * latency + bytes / rate
    }

    /// The latency and the rate of the slowest link between stages.
    fn between_stages(&self, mesh: &Mesh) -> (f64, f64) {
        match mesh.grid().pipeline {
            1 => (self.core.latency, self.rate(&mesh.groups(&[Axis::Pipeline])[0])),
            _ => {
                let share = |rate: f64| rate / self.per_host as f64;
                let messages = self.core.host_messages.map_or(self.core.network, share);
                (self.core.network_latency, self.core.network.min(messages))
            }
        }
    }

    /// The rate of the slowest link between neighbours of a group.
    pub(super) fn rate(&self, members: &[usize]) -> f64 {
        let host = |core: usize| core / self.per_host;
        let is_within_host = members.windows(2).all(|it| host(it[0]) == host(it[1]));
        if is_within_host { self.core.link } else { self.core.network }
    }
}

/// The steps of a job whose training data have so many rows; 0 where they depend on unknown ones.
fn steps(job: &JobFile, rows: u64) -> RunResult<u64> {
    let batch = job.total_train_batch_size() / u64::from(job.train.gradient_accumulation_steps);
    let batches = match job.train.dataloader_drop_last {
        true => rows / batch,
        false => rows.div_ceil(batch),
    };
    Ok(Timetable::new(&job.train, batches)?.max_steps)
}

/// How often a step runs its programs.
#[derive(Clone, Copy)]
struct Repeats {
    batches: f64,
    /// The micro-batches of all batches.
    microbatches: f64,
}

impl Repeats {
    fn of(train: &Train, pipeline_order: &PipelineOrder) -> Repeats {
        let batches = f64::from(train.gradient_accumulation_steps);
        Repeats { batches, microbatches: batches * pipeline_order.microbatches as f64 }
    }
}

/// The bytes that a core sends in a step, by axis, and the seconds that it takes.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    data_bytes: f64,
    tensor_bytes: f64,
    pipeline_bytes: f64,
    /// The seconds of sending while batches pass.
    passes_seconds: f64,
    /// The seconds of the update at the end of a step.
    update_seconds: f64,
}

impl Traffic {
    fn seconds(&self) -> f64 {
        self.passes_seconds + self.update_seconds
    }

    fn max(self, other: Traffic) -> Traffic {
        Traffic {
            data_bytes: self.data_bytes.max(other.data_bytes),
            tensor_bytes: self.tensor_bytes.max(other.tensor_bytes),
            pipeline_bytes: self.pipeline_bytes.max(other.pipeline_bytes),
            passes_seconds: self.passes_seconds.max(other.passes_seconds),
            update_seconds: self.update_seconds.max(other.update_seconds),
        }
    }
}

/// The cores of the first group of a collective of a stage, among those of a host.
fn members(collective: &Collective, mesh: &Mesh, stage: usize) -> Vec<usize> {
    let own = mesh.of_stage();
    // Each host has as many stages.
    let pipeline = stage % mesh.size(Axis::Pipeline);
    let member = |member| mesh.replica(Coordinates { pipeline, ..own.coordinates(member) });
    collective.participants.first().into_iter().map(member).collect()
}

/// Whether a collective gathers shards, and the values of no sum.
fn gathers(collective: &Collective) -> bool {
    matches!(collective.operation, "all_gather" | "all_gather_hosts")
}

/// Whether a collective is between the same cores of several hosts.
fn is_over_hosts(collective: &Collective) -> bool {
    matches!(collective.participants, Participants::Hosts(_))
}

/// Whether a collective of a stage is over an axis: one over several counts for `data`.
fn is_over(collective: &Collective, mesh: &Mesh, axis: Axis) -> bool {
    collective.axis(&mesh.of_stage()) == Some(axis)
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use traind_loader::ModelInputs;
    use traind_models::{ModelConfig, Task, registry};

    use super::*;
    use crate::data::EarlyRows;
    use crate::plan::candidates::tests::job;
    use crate::plan::devices::LATENCY;

    pub(in crate::plan) fn planned(job: &JobFile) -> PlannedModel {
        let config = json!({
            "model_type": "gpt2", "vocab_size": 512, "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4,
        });
        let config = ModelConfig::new("config.json", config.as_object().unwrap().clone());
        let task = crate::tasks::of_job(job, &config).unwrap();
        let model: Arc<traind_models::Model> =
            registry::build(config, Task::CausalLm).unwrap().into();
        let inputs =
            ModelInputs { token_type_ids: false, attention_mask: true, position_ids: false };
        let neuron = crate::plan::neuron::limits(job, "", None);
        let (readout, rows) = (task.readout(), EarlyRows::default());
        PlannedModel { model, readout, task, inputs, neuron, rows }
    }

    /// Slow links make layers that are divided slow, and a slow network those of several hosts.
    pub(in crate::plan) const CORE: Core = Core {
        flops: 1e12,
        memory: 1e11,
        link: 1e10,
        latency: LATENCY,
        combines: true,
        network: 1e8,
        network_latency: LATENCY,
        host_messages: None,
        memory_bytes: None,
    };

    pub(in crate::plan) fn plan(job: &JobFile) -> MeshPlan {
        let machine = Machine { core: CORE, per_host: 4, price: 2.0, rows: 0 };
        machine.plan(job, &planned(job), Some(1 << 30)).unwrap()
    }

    #[test]
    fn bytes_and_seconds_are_those_of_the_formulas() {
        let job = job("resources: {cores: 2}\ntrain: {optim: sgd, max_steps: 3600}");
        let found = plan(&job);
        let weights = found.memory.weights_bytes;
        // The gradients, and the sums of losses and weights; of two cores each sends half twice.
        assert_eq!(found.data_axis_bytes, weights + 8);
        assert_eq!((found.tensor_axis_bytes, found.fits), (0, true));
        let flops = planned(&job).model.forward_flops(8, Lengths::of(64));
        let bytes = 2.0 * weights as f64 + found.memory.gradients_bytes as f64;
        let compute = 3.0 * flops / 1e12 + bytes / 1e11;
        assert!((found.compute_seconds / compute - 1.0).abs() < 1e-9, "{found:?}");
        let sent = found.data_axis_bytes as f64 / 1e10;
        let latencies = found.communication_seconds - sent;
        assert!(latencies > 0.0 && latencies < 40.0 * LATENCY, "{found:?}");
        assert_eq!(found.hours, found.step_seconds);
        assert_eq!(found.price, 2.0 * found.step_seconds);
    }

    #[test]
    fn steps_follow_from_epochs_and_rows() {
        let steps = |train: &str, rows: u64| {
            steps(&job(&format!("resources: {{cores: 2}}\ntrain: {{{train}}}")), rows).unwrap()
        };
        let epochs =
            "per_device_train_batch_size: 4, gradient_accumulation_steps: 2, num_train_epochs: 3";
        // 13 batches of 8 rows an epoch, two of them a step.
        assert_eq!(steps(epochs, 100), 3 * 7);
        assert_eq!(steps(&format!("{epochs}, dataloader_drop_last: true"), 100), 3 * 6);
        assert_eq!(steps(epochs, 0), 0, "the rows are not known");
        assert_eq!(steps(&format!("{epochs}, max_steps: 9"), 100), 9);
        assert_eq!(steps(&format!("{epochs}, max_steps: 9"), 0), 9);
    }

    #[test]
    fn devices_that_take_turns_wait_at_each_gather_and_not_for_sums_of_gradients() {
        let seconds = |latency: f64, combines: bool, fsdp: &str| {
            let core = Core { latency, combines, ..CORE };
            let machine = Machine { core, per_host: 4, price: 0.0, rows: 0 };
            let job = job(&format!("resources: {{cores: 4}}\nparallel: {{fsdp: {fsdp}}}"));
            let found = machine.plan(&job, &planned(&job), None).unwrap();
            found.communication_seconds
        };
        let waits = |combines, fsdp| seconds(1.0, combines, fsdp) - seconds(0.0, combines, fsdp);
        assert!(waits(false, "no") < 1.0, "{}", waits(false, "no"));
        assert!(waits(true, "full_shard") < 1.0, "{}", waits(true, "full_shard"));
        assert!(waits(false, "full_shard") >= 8.0, "{}", waits(false, "full_shard"));
    }

    #[test]
    fn groups_over_several_hosts_take_the_network() {
        let one = plan(&job("resources: {cores: 4}"));
        let two = plan(&job("resources: {hosts: 2, cores: 4}"));
        assert!(two.communication_seconds > 10.0 * one.communication_seconds, "{one:?} {two:?}");
        // Hosts of one core each send nothing within a host.
        let far = plan(&job("resources: {hosts: 2, cores: 1}\ntrain: {optim: sgd}"));
        assert_eq!(far.data_axis_bytes, far.memory.weights_bytes + 8);
        assert!(far.communication_seconds > far.data_axis_bytes as f64 / CORE.network);
    }

    #[test]
    fn states_between_stages_on_different_hosts_take_the_network() {
        let of = |placement: &str| {
            plan(&job(&format!(
                "train: {{per_device_train_batch_size: 8}}\nresources: {{hosts: 2, cores: 4}}\n\
                 parallel: {{pipeline: 2, microbatches: 8, placement: {placement}}}"
            )))
        };
        let [near, far] = [of("DPT"), of("PDT")];
        assert_eq!(far.pipeline_axis_bytes, near.pipeline_axis_bytes);
        // Gradients are added within each host then, so that only what stages send is on the network.
        let seconds = far.pipeline_axis_bytes as f64 / CORE.network;
        let in_host = far.data_axis_bytes as f64 / CORE.link + 100.0 * LATENCY;
        let found = far.communication_seconds;
        assert!(seconds < found && found < seconds + in_host, "{found} for {seconds}: {far:?}");
    }

    /// The cores of a host share one thread of MPI then.
    #[test]
    fn states_of_devices_with_memory_of_their_own_pass_through_the_hosts() {
        let job = job("resources: {hosts: 2, cores: 4}\n\
                       parallel: {pipeline: 2, microbatches: 8, placement: PDT}");
        let between = |host_messages| {
            let core = Core { host_messages, ..CORE };
            let machine = Machine { core, per_host: 4, price: 0.0, rows: 0 };
            machine.between_stages(&mesh(&job).unwrap()).1
        };
        assert_eq!(between(None), CORE.network);
        assert_eq!(between(Some(CORE.network)), CORE.network / 4.0);
        assert_eq!(between(Some(100.0 * CORE.network)), CORE.network);
    }

    #[test]
    fn stages_send_states_and_wait_for_the_first_and_last_micro_batch() {
        let pipelined = "train: {per_device_train_batch_size: 8, gradient_checkpointing: false}\n\
                         resources: {cores: 2}\nparallel: {pipeline: 2, microbatches: 8}";
        let job = job(pipelined);
        let [found, whole] = [plan(&job), plan(&self::job("resources: {cores: 1}"))];
        // Eight micro-batches of one row, 64 positions and 64 features each way, and the tied embedding's
        // sums or values at the end.
        assert_eq!(found.pipeline_axis_bytes, 8 * 64 * 64 * 4 + 512 * 64 * 4);
        assert_eq!((found.data_axis_bytes, found.tensor_axis_bytes), (0, 0));
        let flops = planned(&job).model.forward_flops(8, Lengths::of(64));
        // Each stage has half of the layers.
        let passes = 3.0 * flops / 2.0 / 1e12;
        let sent = 16.0 * LATENCY + (8 * 64 * 64 * 4) as f64 / 1e10;
        let idle = (passes + sent) / 8.0;
        assert!((found.idle_seconds / idle - 1.0).abs() < 1e-9, "{found:?}");
        let sum = found.compute_seconds + found.communication_seconds + found.idle_seconds;
        assert_eq!(found.step_seconds, sum);
        let (memory, whole) = (found.memory, whole.memory);
        assert!(memory.weights_bytes < whole.weights_bytes, "{memory:?}");
        assert!(memory.bytes_per_core < whole.bytes_per_core, "{memory:?}");
    }
}
