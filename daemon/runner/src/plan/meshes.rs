//! The meshes that the cores of a job can form, the fastest first by prediction.
//!
//! The prediction is a sum: of the dots at a share of the device's peak, of the update at the rate of
//! memory, of each collective at the rate of the slowest link that its group needs, and of the time that
//! stages are idle. Nothing overlaps.

use std::path::PathBuf;

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use serde::{Deserialize, Serialize};
use traind_job_file::{JobFile, Platform, Train};
use traind_models::Lengths;
use traind_xla::analysis::Collective;
use traind_xla::graph::Participants;
use traind_xla::mesh::{Axis, Coordinates, Mesh};

use super::PlannedModel;
use super::candidates::candidates;
use super::compiled;
use super::devices::{self, Core, Processor};
use super::memory::{Memory, Recordings, Traffic as StageTraffic, target_positions};
use crate::error::{RunError, RunResult};
use crate::state::{Pipeline, mesh};
use crate::step::{Program, Schedule};

/// Most meshes of an answer.
const MESHES_MAX: usize = 16;
/// Of these, those that do not fit.
const MISFITS_MAX: usize = 4;
const CORES_MAX: u32 = 8192;
/// Seconds until a collective's first byte arrives.
const LATENCY: f64 = 1e-5;
/// Bytes of one collective into which compilers combine smaller ones that do not depend on each other, as
/// those over `data` do not.
const COMBINED_BYTES: f64 = 32e6;

/// Which machines the meshes are for.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Search {
    /// As in the table of devices; empty for the platform's first one.
    #[serde(default)]
    pub device: String,
    /// Among which the job's cores are divided evenly, unless the job has several itself.
    pub hosts: u32,
    /// Compare meshes whose layers, stages and shards are divided over hosts too, which no job can be.
    #[serde(default)]
    pub across_hosts: bool,
    /// Of all hosts together.
    #[serde(default)]
    pub price_per_hour: f64,
    /// What an earlier search measured.
    #[serde(default)]
    pub processor: Option<Processor>,
    /// Of GPUs that this host need not have, which then compiles for the fastest meshes.
    #[serde(default)]
    pub plugin: Option<PathBuf>,
}

/// What a search found.
#[derive(Debug)]
pub(super) struct Found {
    /// The job on the first of the meshes.
    pub job: JobFile,
    pub meshes: Vec<MeshPlan>,
    /// Present where the cores are CPU devices.
    pub processor: Option<Processor>,
}

/// A mesh with what it takes. Times are seconds of one step, and bytes those of one core.
#[derive(Clone, Debug, Serialize)]
pub(super) struct MeshPlan {
    pub data: u32,
    pub tensor: u32,
    pub pipeline: u32,
    /// Parts of the model on each stage.
    pub pipeline_interleave: u32,
    /// Of each batch.
    pub microbatches: u32,
    pub sequence_parallel: bool,
    pub fsdp: String,
    pub gradient_checkpointing: bool,
    pub per_device_train_batch_size: u32,
    pub gradient_accumulation_steps: u32,
    #[serde(flatten)]
    pub memory: Memory,
    /// Whether a compiler laid the memory out, instead of an estimate.
    pub compiled: bool,
    pub fits: bool,
    pub data_axis_bytes: u64,
    pub tensor_axis_bytes: u64,
    pub pipeline_axis_bytes: u64,
    pub compute_seconds: f64,
    pub communication_seconds: f64,
    /// Until a stage's first micro-batch, and after its last one.
    pub idle_seconds: f64,
    pub step_seconds: f64,
    pub rows_per_second: f64,
    /// Of `train.max_steps`; 0 without them.
    pub hours: f64,
    /// Of these hours; 0 without a price.
    pub price: f64,
}

/// Compares the meshes of the job: those that fit come first, and of these the fastest. Fails where the
/// model or the optimizer refuses all of them.
pub(super) fn search(
    job: &JobFile,
    planned: &PlannedModel,
    search: &Search,
    bytes_per_core_max: Option<u64>,
) -> RunResult<Found> {
    let (platform, per_host) = (job.resources.platform, cores_per_host(job, search.hosts)?);
    let job = &if search.across_hosts { on_one_host(job) } else { on_hosts(job, per_host) };
    let is_cpu = platform == Platform::Cpu;
    let processor = is_cpu.then(|| search.processor.unwrap_or_else(Processor::measured));
    let core = match &processor {
        Some(processor) => processor.core(per_host),
        None => devices::core(platform, &search.device, &job.train)?,
    };
    let machine = Machine { core, per_host: per_host as usize, price: search.price_per_hour };
    let bytes_max = bytes_per_core_max.or(core.memory_bytes);
    let mut found = Vec::new();
    let mut refused = None;
    let layers = planned.model.num_layers() as u32;
    let plans = candidates(job, per_host, layers).into_par_iter().map(|candidate| {
        let plan = machine.plan(&candidate, planned, bytes_max);
        (candidate, plan)
    });
    for (candidate, plan) in plans.collect::<Vec<_>>() {
        match plan {
            Ok(plan) => found.push((candidate, plan)),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    if let Some(compiler) = compiled::compiler(search, job.resources.cores, per_host) {
        compiled::measure(&mut found, planned, &compiler, bytes_max);
    }
    rank(&mut found);
    let first = found.first().map(|(job, _)| job.clone());
    match (first, refused) {
        (Some(job), _) => {
            let meshes = shortest(found.into_iter().map(|(_, plan)| plan));
            Ok(Found { job, meshes, processor })
        }
        (None, Some(error)) => Err(error),
        (None, None) => Err(no_division(job)),
    }
}

/// The first meshes that fit, and the first of the others.
fn shortest(ranked: impl Iterator<Item = MeshPlan>) -> Vec<MeshPlan> {
    let (fitting, others): (Vec<_>, Vec<_>) = ranked.partition(|mesh| mesh.fits);
    let count = MESHES_MAX - others.len().min(MISFITS_MAX);
    fitting.into_iter().take(count).chain(others.into_iter().take(MISFITS_MAX)).collect()
}

fn cores_per_host(job: &JobFile, hosts: u32) -> RunResult<u32> {
    let cores = job.resources.total_cores();
    let hosts = if job.resources.hosts > 1 { job.resources.hosts } else { hosts.max(1) };
    let problem = match cores {
        _ if cores > CORES_MAX => format!("is more than a search can compare, {CORES_MAX}"),
        _ if !cores.is_multiple_of(hosts) => {
            format!("cannot be divided evenly among {hosts} hosts")
        }
        _ => return Ok(cores / hosts),
    };
    Err(RunError::Field { name: "resources.cores", value: cores.to_string(), problem })
}

/// The job with its cores on hosts of `per_host` each, which see different rows.
fn on_hosts(job: &JobFile, per_host: u32) -> JobFile {
    let mut changed = job.clone();
    changed.resources.hosts = job.resources.total_cores() / per_host;
    changed.resources.cores = per_host;
    changed
}

/// The job with all of its cores in one mesh.
fn on_one_host(job: &JobFile) -> JobFile {
    on_hosts(job, job.resources.total_cores())
}

fn rank(found: &mut [(JobFile, MeshPlan)]) {
    found.sort_by(|(_, a), (_, b)| {
        let by_time = a.step_seconds.total_cmp(&b.step_seconds);
        let by_memory = a.memory.bytes_per_core.cmp(&b.memory.bytes_per_core);
        b.fits.cmp(&a.fits).then(by_time).then(by_memory)
    });
}

fn no_division(job: &JobFile) -> RunError {
    RunError::Field {
        name: "train.per_device_train_batch_size",
        value: job.train.per_device_train_batch_size.to_string(),
        problem: format!(
            "a step of {} rows cannot be divided among the cores of any mesh",
            job.total_train_batch_size()
        ),
    }
}

struct Machine {
    core: Core,
    per_host: usize,
    price: f64,
}

impl Machine {
    fn plan(
        &self,
        job: &JobFile,
        planned: &PlannedModel,
        bytes_max: Option<u64>,
    ) -> RunResult<MeshPlan> {
        let Recordings { memory, stages, schedule } = Recordings::of(job, planned)?;
        let (parallel, train, mesh) = (&job.parallel, &job.train, mesh(job)?);
        let traffic = self.traffic(&mesh, &stages, Repeats::of(train, &schedule));
        let (passes, update) = self.compute_seconds(job, planned, &memory)?;
        let idle_seconds = schedule.idle_share() * (passes + traffic.passes_seconds);
        let (compute_seconds, communication_seconds) = (passes + update, traffic.seconds());
        let step_seconds = compute_seconds + communication_seconds + idle_seconds;
        let hours = step_seconds * train.max_steps.max(0) as f64 / 3600.0;
        Ok(MeshPlan {
            data: job.data_parallel_size(),
            tensor: parallel.tensor,
            pipeline: parallel.pipeline,
            pipeline_interleave: parallel.pipeline_interleave,
            microbatches: schedule.microbatches as u32,
            sequence_parallel: parallel.sequence_parallel,
            fsdp: parallel.fsdp.to_string(),
            gradient_checkpointing: train.gradient_checkpointing,
            per_device_train_batch_size: train.per_device_train_batch_size,
            gradient_accumulation_steps: train.gradient_accumulation_steps,
            compiled: false,
            fits: bytes_max.is_none_or(|most| memory.bytes_per_core <= most),
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

    /// The seconds of the dots of the largest stage, and those of its update. Dots are forward and twice
    /// backward, forward again where activations are recomputed, and once more in a stage, which keeps
    /// its input alone. The update reads and writes weights and state.
    fn compute_seconds(
        &self,
        job: &JobFile,
        planned: &PlannedModel,
        memory: &Memory,
    ) -> RunResult<(f64, f64)> {
        let (train, parallel) = (&job.train, &job.parallel);
        let lengths = Lengths {
            positions: planned.positions(job)? as usize,
            target_positions: target_positions(job) as usize,
        };
        let rows = train.per_device_train_batch_size * train.gradient_accumulation_steps;
        let rows = rows as usize * job.sequences_per_row();
        let forward = planned.model.forward_flops(rows, lengths);
        let layers = planned.model.num_layers().max(1);
        let largest = Pipeline::of_job(job, planned.model.as_ref())?.largest_stage().max(1);
        let share = largest as f64 / layers as f64;
        let again = u32::from(train.gradient_checkpointing)
            + u32::from(parallel.pipeline > 1)
            + u32::from(job.has_reference());
        let passes = f64::from(3 + again);
        let dots = passes * forward * share / f64::from(parallel.tensor) / self.core.flops;
        let updated =
            2 * memory.weights_bytes + memory.gradients_bytes + 2 * memory.optimizer_bytes;
        Ok((dots, updated as f64 / self.core.memory))
    }

    /// What the stage that sends the most of each kind does. Stages send at the same time.
    fn traffic(&self, mesh: &Mesh, stages: &[StageTraffic], repeats: Repeats) -> Traffic {
        let all = stages.iter().map(|sent| self.stage_traffic(mesh, sent, repeats));
        all.reduce(Traffic::max).unwrap_or_default()
    }

    fn stage_traffic(&self, mesh: &Mesh, sent: &StageTraffic, repeats: Repeats) -> Traffic {
        let mut traffic = Traffic::default();
        for (program, collective) in &sent.collectives {
            let (times, seconds) = match program {
                Program::Accumulate => (repeats.microbatches, &mut traffic.passes_seconds),
                _ => (1.0, &mut traffic.update_seconds),
            };
            *seconds += times * self.seconds(collective, mesh, sent.stage);
            let bytes = times * moved_bytes(collective);
            if is_over_hosts(collective) || is_over(collective, mesh, Axis::Data) {
                traffic.data_bytes += bytes;
            } else if is_over(collective, mesh, Axis::Tensor) {
                traffic.tensor_bytes += bytes;
            }
        }
        let to_stages = |bytes: f64, times: f64| {
            let latencies = if bytes > 0.0 { times } else { 0.0 };
            latencies * LATENCY + bytes / self.rate(&mesh.groups(&[Axis::Pipeline])[0])
        };
        let [batches, update] =
            [repeats.batches * sent.batch_bytes as f64, sent.update_bytes as f64];
        traffic.passes_seconds += to_stages(batches, 2.0 * repeats.microbatches);
        traffic.update_seconds += to_stages(update, 1.0);
        traffic.pipeline_bytes = batches + update;
        traffic
    }

    fn seconds(&self, collective: &Collective, mesh: &Mesh, stage: usize) -> f64 {
        let (bytes, crosses) = (moved_bytes(collective), is_over_hosts(collective));
        let latencies = match crosses || is_over(collective, mesh, Axis::Data) {
            true => (bytes / COMBINED_BYTES).min(1.0),
            false => 1.0,
        };
        let rate = match crosses {
            true => self.core.network,
            false => self.rate(&members(collective, mesh, stage)),
        };
        latencies * LATENCY + bytes / rate
    }

    /// The rate of the slowest link between neighbours of a group.
    fn rate(&self, members: &[usize]) -> f64 {
        let host = |core: usize| core / self.per_host;
        let is_within_host = members.windows(2).all(|it| host(it[0]) == host(it[1]));
        if is_within_host { self.core.link } else { self.core.network }
    }
}

/// How often a step runs its programs.
#[derive(Clone, Copy)]
struct Repeats {
    batches: f64,
    /// Of all batches.
    microbatches: f64,
}

impl Repeats {
    fn of(train: &Train, schedule: &Schedule) -> Repeats {
        let batches = f64::from(train.gradient_accumulation_steps);
        Repeats { batches, microbatches: batches * schedule.microbatches as f64 }
    }
}

/// What a core sends in a step, by axis, and the seconds that it takes.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    data_bytes: f64,
    tensor_bytes: f64,
    pipeline_bytes: f64,
    /// While batches pass.
    passes_seconds: f64,
    /// At the end of the step.
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

/// The bytes that each core sends in a ring of its group.
fn moved_bytes(collective: &Collective) -> f64 {
    let members = collective.participants.group_size() as f64;
    let others = (members - 1.0) / members;
    match collective.operation {
        "all_reduce" | "all_reduce_hosts" => 2.0 * others * collective.operand_bytes as f64,
        "all_gather" => others * collective.result_bytes as f64,
        "collective_permute" => collective.operand_bytes as f64,
        _ => others * collective.operand_bytes as f64,
    }
}

/// The cores of the first group of a collective of a stage, among those of a host.
fn members(collective: &Collective, mesh: &Mesh, stage: usize) -> Vec<usize> {
    let own = mesh.of_stage();
    let member = |member| mesh.replica(Coordinates { pipeline: stage, ..own.coordinates(member) });
    collective.participants.first().into_iter().map(member).collect()
}

/// Whether a collective is between the same cores of several hosts.
fn is_over_hosts(collective: &Collective) -> bool {
    matches!(collective.participants, Participants::Hosts(_))
}

/// Whether a collective is over an axis: one over several counts for `data`.
fn is_over(collective: &Collective, mesh: &Mesh, axis: Axis) -> bool {
    let Participants::Groups(_) = &collective.participants else { return false };
    mesh.of_stage().axes_between(&collective.participants.first()).first() == Some(&axis)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use traind_loader::ModelInputs;
    use traind_models::{ModelConfig, Task, registry};

    use super::*;
    use crate::plan::candidates::tests::job;

    fn planned(job: &JobFile) -> PlannedModel {
        let config = json!({
            "model_type": "gpt2", "vocab_size": 512, "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4,
        });
        let config = ModelConfig::new("config.json", config.as_object().unwrap().clone());
        let task = crate::tasks::of_job(job, &config).unwrap();
        let model: Arc<dyn traind_models::Model> =
            registry::build(config, Task::CausalLm).unwrap().into();
        let inputs =
            ModelInputs { token_type_ids: false, attention_mask: true, position_ids: false };
        PlannedModel { model, readout: task.readout(), task, inputs }
    }

    /// Slow links make layers that are divided slow, and a slow network those of several hosts.
    const CORE: Core =
        Core { flops: 1e12, memory: 1e11, link: 1e10, network: 1e8, memory_bytes: None };

    fn plan(job: &JobFile) -> MeshPlan {
        let machine = Machine { core: CORE, per_host: 4, price: 2.0 };
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
    fn groups_over_several_hosts_take_the_network() {
        let one = plan(&job("resources: {cores: 4}"));
        let two = plan(&job("resources: {hosts: 2, cores: 4}"));
        assert!(two.communication_seconds > 10.0 * one.communication_seconds, "{one:?} {two:?}");
        // Of one core each, so that nothing is sent within a host.
        let far = plan(&job("resources: {hosts: 2, cores: 1}\ntrain: {optim: sgd}"));
        assert_eq!(far.data_axis_bytes, far.memory.weights_bytes + 8);
        assert!(far.communication_seconds > far.data_axis_bytes as f64 / CORE.network);
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
        // Each stage has half of the layers, and passes forward once more.
        let passes = 4.0 * flops / 2.0 / 1e12;
        let sent = 16.0 * LATENCY + (8 * 64 * 64 * 4) as f64 / 1e10;
        let idle = (passes + sent) / 8.0;
        assert!((found.idle_seconds / idle - 1.0).abs() < 1e-9, "{found:?}");
        let sum = found.compute_seconds + found.communication_seconds + found.idle_seconds;
        assert_eq!(found.step_seconds, sum);
        let (memory, whole) = (found.memory, whole.memory);
        assert!(memory.weights_bytes < whole.weights_bytes, "{memory:?}");
        assert!(memory.bytes_per_core < whole.bytes_per_core, "{memory:?}");
    }

    #[test]
    fn what_fits_comes_first_and_then_what_is_faster() {
        let job = job("resources: {cores: 2}");
        let plan = |step_seconds: f64, bytes_per_core: u64, fits: bool| {
            let mut plan = plan(&job);
            (plan.step_seconds, plan.fits) = (step_seconds, fits);
            plan.memory.bytes_per_core = bytes_per_core;
            (job.clone(), plan)
        };
        let mut found =
            vec![plan(1.0, 9, false), plan(3.0, 2, true), plan(2.0, 7, true), plan(2.0, 5, true)];
        rank(&mut found);
        let order: Vec<u64> = found.iter().map(|(_, it)| it.memory.bytes_per_core).collect();
        assert_eq!(order, [5, 7, 2, 9]);
    }

    #[test]
    fn the_search_tries_every_mesh_and_divides_hosts_evenly() {
        let job = job("resources: {cores: 4, platform: cuda}\ntrain: {bf16: true}");
        let planned = planned(&job);
        let on = |hosts| Search { device: "h100".to_owned(), hosts, ..Search::default() };
        let Found { job: first, meshes: found, .. } = search(&job, &planned, &on(1), None).unwrap();
        assert_eq!(found.len(), MESHES_MAX);
        assert_eq!(first.parallel.tensor, found[0].tensor);
        assert!(found.windows(2).all(|it| it[0].step_seconds <= it[1].step_seconds));
        // A small model's gradients cost less than dividing its layers.
        assert_eq!((found[0].tensor, found[0].gradient_checkpointing), (1, false));
        // Layers, stages and shards stay within a host, as in a job.
        let far = search(&job, &planned, &on(4), None).unwrap().meshes;
        let is_whole = |it: &MeshPlan| (it.tensor, it.pipeline, it.fsdp.as_str()) == (1, 1, "no");
        assert!(far.iter().all(is_whole), "{far:?}");
        let pairs = search(&job, &planned, &on(2), None).unwrap().meshes;
        let sharded = pairs.iter().find(|it| it.fsdp == "full_shard").unwrap();
        let of_two =
            |fsdp: &str| found.iter().find(|it| it.tensor == 2 && it.fsdp == fsdp).unwrap();
        assert_eq!((sharded.data, sharded.tensor), (4, 1));
        assert!(sharded.memory.weights_bytes > of_two("full_shard").memory.weights_bytes);
        let across = Search { across_hosts: true, ..on(4) };
        let across = search(&job, &planned, &across, None).unwrap().meshes;
        assert!(
            across.iter().any(|it| it.pipeline == 2 && it.fsdp == "shard_optimizer"),
            "{across:?}"
        );
        let error = search(&job, &planned, &on(3), None).unwrap_err().to_string();
        assert!(error.contains("cannot be divided evenly among 3 hosts"), "{error}");
        // Without room for a whole copy, layers or parameters are divided.
        let room = found[0].memory.bytes_per_core - 1;
        let tight = search(&job, &planned, &on(1), Some(room)).unwrap().meshes;
        assert!(tight[0].fits && tight[0].memory.bytes_per_core <= room);
    }
}
