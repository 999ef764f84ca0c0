//! The effect of each parallel setting of a job: what it does on the job's mesh, and the memory of a core that
//! it saves, which is that of the same job without it.

use traind_job_file::commands::{CoreMemory, Effect, Parallelism, Place, SavedBytes, StagePasses};
use traind_job_file::{Fsdp, JobFile};

use super::PlannedModel;
use super::memory::{self, Recordings};
use crate::error::RunResult;
use crate::recipe;
use crate::step::PipelineOrder;

/// Cores whose places are listed.
const PLACES_MAX: usize = 256;
/// Stages whose passes are listed, and passes of each.
const STAGES_MAX: usize = 16;
const PASSES_MAX: usize = 64;

/// The effects of a job's settings, by the recordings of its programs; none where it has one core.
pub(super) fn of(
    job: &JobFile,
    planned: &PlannedModel,
    recordings: &Recordings,
) -> RunResult<Parallelism> {
    let Recordings { memory, pipeline_order: order, .. } = recordings;
    let compared = Compared { job, planned, memory };
    let effects = compared.effects(order)?;
    let has_mesh = job.resources.total_cores() > 1;
    let (places, stages) = match has_mesh {
        true => (places(job)?, passes(order)),
        false => Default::default(),
    };
    Ok(Parallelism { effects, places, stages })
}

/// A job that is compared with the same job without one of its settings.
struct Compared<'a> {
    job: &'a JobFile,
    planned: &'a PlannedModel,
    memory: &'a CoreMemory,
}

impl Compared<'_> {
    fn effects(&self, order: &PipelineOrder) -> RunResult<Vec<Effect>> {
        let (job, parallel) = (self.job, &self.job.parallel);
        let mut effects = Vec::new();
        if job.resources.total_cores() > 1 {
            effects.push(mesh(job));
            effects.push(placement(job));
        }
        if job.data_parallel_size() > 1 {
            effects.push(data(job));
        }
        if parallel.tensor > 1 {
            effects.push(self.tensor()?);
        }
        if parallel.sequence_parallel {
            let effect = "each of these cores has a part of the positions between layers";
            let setting = "parallel.sequence_parallel: true";
            effects.push(self.against(setting, effect, |job| {
                job.parallel.sequence_parallel = false;
            })?);
        }
        if parallel.pipeline > 1 {
            effects.push(self.pipeline(order)?);
        }
        if parallel.sharding() != Fsdp::No {
            effects.push(self.sharding()?);
        }
        effects.extend(self.of_memory()?);
        Ok(effects)
    }

    /// The settings that save memory on any mesh.
    fn of_memory(&self) -> RunResult<Vec<Effect>> {
        let (job, offload) = (self.job, &self.job.parallel.offload);
        let mut effects = Vec::new();
        if job.train.gradient_checkpointing {
            let effect = "only the inputs of layers are kept for the backward pass, which computes the rest anew";
            let setting = "train.gradient_checkpointing: true";
            effects.push(self.against(setting, effect, |job| {
                job.train.gradient_checkpointing = false;
            })?);
        }
        if offload.optimizer {
            let effect = "the optimizer's state waits in host memory, and is loaded in parts for each update";
            let setting = "parallel.offload: optimizer";
            effects.push(self.against(setting, effect, |job| {
                job.parallel.offload.optimizer = false;
            })?);
        }
        if offload.activations {
            effects.push(self.offloaded_activations()?);
        }
        Ok(effects)
    }

    fn tensor(&self) -> RunResult<Effect> {
        let tensor = self.job.parallel.tensor;
        let setting = format!("parallel.tensor: {tensor}");
        let effect = format!("{tensor} cores with the same rows have a part of each layer");
        self.against(&setting, &effect, |job| {
            job.parallel.tensor = 1;
            job.parallel.sequence_parallel = false;
        })
    }

    fn pipeline(&self, order: &PipelineOrder) -> RunResult<Effect> {
        let parallel = &self.job.parallel;
        let microbatches = order.microbatches;
        let mut setting = format!("parallel.pipeline: {}", parallel.pipeline);
        if parallel.microbatches.is_some() {
            setting += &format!(", microbatches: {microbatches}");
        }
        if parallel.pipeline_interleave > 1 {
            setting += &format!(", pipeline_interleave: {}", parallel.pipeline_interleave);
        }
        let rows = self.job.train.per_device_train_batch_size as usize;
        let parts = order.chunks_per_stage;
        let of_layers = match parts {
            1 => "each stage has a run of layers".to_owned(),
            parts => format!("each stage has {parts} runs of layers"),
        };
        let schedule = match order.compares {
            true => "first all forward, then all backward",
            false => "1F1B",
        };
        let effect = format!(
            "{of_layers}; {microbatches} micro-batches of up to {} rows pass through the stages ({schedule}), each \
             of which is idle for {:.0} % of the time that it works",
            rows.div_ceil(microbatches.max(1)),
            100.0 * order.idle_share(),
        );
        self.against(&setting, &effect, |job| {
            let parallel = &mut job.parallel;
            (parallel.pipeline, parallel.pipeline_interleave) = (1, 1);
            (parallel.microbatches, parallel.offload.activations) = (None, false);
        })
    }

    fn sharding(&self) -> RunResult<Effect> {
        let sharding = self.job.parallel.sharding();
        let parts = match (sharding.shards_parameters(), sharding.shards_gradients()) {
            (true, _) => "the weights, the gradients and the optimizer's state",
            (_, true) => "the gradients and the optimizer's state",
            _ => "the optimizer's state",
        };
        let cores = if sharding.is_within_hosts() {
            "of the data axis on a host"
        } else {
            "of the data axis"
        };
        let setting = format!("parallel.fsdp: {}", sharding.as_str());
        let effect = format!("each core {cores} has a part of {parts}");
        self.against(&setting, &effect, |job| {
            job.parallel.fsdp = Fsdp::No;
            job.parallel.shard_optimizer_state = false;
        })
    }

    fn offloaded_activations(&self) -> RunResult<Effect> {
        let horizon = self.job.parallel.activation_loading_horizon;
        let setting =
            format!("parallel.offload: activations, activation_loading_horizon: {horizon}");
        let effect = format!(
            "what a stage keeps for backward passes waits in host memory, and is loaded {horizon} passes ahead"
        );
        self.against(&setting, &effect, |job| job.parallel.offload.activations = false)
    }

    /// The effect of a setting that `remove` takes out of the job, whose cores stay as many.
    fn against(
        &self,
        setting: &str,
        effect: &str,
        remove: impl Fn(&mut JobFile),
    ) -> RunResult<Effect> {
        let mut job = self.job.clone();
        remove(&mut job);
        let others = job.parallel.tensor * job.parallel.pipeline;
        job.parallel.data = Some(job.resources.total_cores() / others);
        // NeuronCores may refuse the programs of a job without the setting.
        let without = memory::of(&job, &self.planned.without_limits())?;
        let saved = saved(&without, self.memory);
        Ok(Effect { saved, ..plain(setting.to_owned(), effect.to_owned()) })
    }
}

/// An effect that is not one on memory.
fn plain(setting: String, effect: String) -> Effect {
    Effect { setting, effect, saved: SavedBytes::default() }
}

fn saved(without: &CoreMemory, with: &CoreMemory) -> SavedBytes {
    let saved = |bytes: fn(&CoreMemory) -> u64| bytes(without) as i64 - bytes(with) as i64;
    SavedBytes {
        saved_bytes: saved(|memory| memory.bytes_per_core),
        saved_weights_bytes: saved(|memory| memory.weights_bytes),
        saved_gradients_bytes: saved(|memory| memory.gradients_bytes),
        saved_optimizer_bytes: saved(|memory| memory.optimizer_bytes),
        saved_activations_bytes: saved(|memory| memory.activations_bytes),
        host_bytes: -saved(|memory| memory.host_bytes),
    }
}

fn mesh(job: &JobFile) -> Effect {
    let (hosts, cores) = (job.resources.hosts.max(1), job.resources.cores);
    let setting = match hosts {
        1 => format!("resources.cores: {cores}"),
        hosts => format!("resources.hosts: {hosts}, cores: {cores}"),
    };
    let (data, parallel) = (job.data_parallel_size(), &job.parallel);
    let effect = format!(
        "mesh of data {data} x tensor {} x pipeline {}",
        parallel.tensor, parallel.pipeline
    );
    plain(setting, effect)
}

fn placement(job: &JobFile) -> Effect {
    let placement = job.parallel.placement;
    let axes = placement.order().chars().map(|letter| match letter {
        'D' => "data",
        'P' => "pipeline",
        _ => "tensor",
    });
    let last = axes.clone().next_back().unwrap_or_default();
    let axes: Vec<&str> = axes.collect();
    let effect =
        format!("axes in the order {}: neighbouring cores differ along {last}", axes.join(", "));
    plain(format!("parallel.placement: {}", placement.as_str()), effect)
}

fn data(job: &JobFile) -> Effect {
    let (data, train) = (job.data_parallel_size(), &job.train);
    let (rows, batches) = (train.per_device_train_batch_size, train.gradient_accumulation_steps);
    let of_step = u64::from(data) * u64::from(rows) * u64::from(batches);
    let batches = if batches == 1 { String::new() } else { format!(" x {batches} batches") };
    let effect = format!(
        "each of {data} groups of cores trains on rows of its own: {data} x {rows} rows{batches} are the \
         {of_step} rows of a step, whose gradients are summed"
    );
    plain(format!("parallel.data: {data}"), effect)
}

/// The places of all cores, host by host.
fn places(job: &JobFile) -> RunResult<Vec<Place>> {
    let config = recipe::mesh_config(job)?;
    let hosts = job.resources.hosts.max(1);
    let mut places = Vec::new();
    for host in 0..hosts {
        let mesh = config.mesh_of_host(host as usize)?;
        for core in 0..mesh.replica_count() {
            let at = mesh.coordinates(core);
            places.push(Place {
                host,
                core: core as u32,
                data: mesh.data_shard(at) as u32,
                pipeline: (mesh.own_stages().start + at.pipeline) as u32,
                tensor: at.tensor as u32,
            });
            if places.len() == PLACES_MAX {
                return Ok(places);
            }
        }
    }
    Ok(places)
}

/// The passes of the first stages.
fn passes(order: &PipelineOrder) -> Vec<StagePasses> {
    if order.stages == 1 {
        return Vec::new();
    }
    let of_stage = |stage| {
        let passes = order.order(stage).into_iter().take(PASSES_MAX);
        StagePasses { passes: passes.collect() }
    };
    (0..order.stages.min(STAGES_MAX)).map(of_stage).collect()
}
