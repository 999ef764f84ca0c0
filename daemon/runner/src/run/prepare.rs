//! Puts the model on the cores and starts to compile the run's programs.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use traind_cache::CacheFolders;
use traind_job_file::{JobFile, Offload, Platform};
use traind_loader::{BatchSizes, Collator, Sampler, panic_message};
use traind_trainer::Error as TrainerError;
use traind_xla::kernels::{KERNELS_VERSION, reason_without_kernels};
use traind_xla::mesh::{Axis, Mesh};
use traind_xla::runtime::{
    DeviceTraits, ExecutableCache, HostArray, HostMemory, LazyDevice, LocalCores,
};

use super::cores::open_cores;
use super::first_uses::FirstUses;
use super::inputs::{Beginning, Inputs};
use super::observer::observer;
use super::{Context, equality, guide, neuron_traits};
use crate::checkpoint::{self, CheckpointSource, Recipe, Resumed};
use crate::data::{Passes, Split, length_budget};
use crate::error::{RunError, RunResult, leave_out_earlier_lines};
use crate::evaluation::{Batching, EvaluatedSplit, Evaluator};
use crate::model::{NamedReference, OpenModel};
use crate::progress::{BestRule, Timetable};
use crate::recipe;
use crate::reporting::CoreStages;
use crate::session::Session;
use crate::state::{StartValues, TrainState};
use crate::step::{JobPrograms, ProgramShape};
use crate::tasks::embedding_width;
use crate::training::FirstBatches;

/// Everything that training needs besides the session.
pub(super) struct Prepared {
    pub resumed: Option<Resumed>,
    pub recipe: Recipe,
    pub train_rows: u64,
    pub collator: Collator,
    pub open: OpenModel,
    pub sampler: Sampler,
    pub timetable: Timetable,
    pub first: Option<FirstBatches>,
    pub validation: Option<Evaluator>,
    pub test: Option<Evaluator>,
}

pub(super) fn prepare(context: &Context) -> RunResult<(Session, Prepared)> {
    let hosts = &context.hosts;
    let mesh = recipe::mesh_of_host(&context.spec.job, hosts.rank())?;
    let open = || open_cores(&context.spec, mesh.clone(), hosts, &context.stop);
    // The plugin is a large library, so it loads while the data are read.
    std::thread::scope(|scope| {
        let cores = scope.spawn(|| match context.spec.job.resources.platform {
            Platform::Neuron => context.reporter.activity.trying_cores(open),
            _ => open(),
        });
        let resumed = find_checkpoint(context)?;
        let mut inputs = Inputs::read(context, mesh.clone(), resumed, Beginning::FirstRows)?;
        let cores =
            cores.join().map_err(|panic| RunError::Panicked(panic_message(panic.as_ref())))??;
        record_traits(context, cores.traits())?;
        if context.spec.job.resources.platform == Platform::Neuron {
            leave_out_earlier_lines();
            neuron_traits::keep(&context.spec.cache_dir, cores.traits());
        }
        guide::embed(context, &cores, &mut inputs)?;
        inputs.prepare(context, cores)
    })
}

/// Records what the cores were found unable to do, with the way around it.
fn record_traits(context: &Context, traits: DeviceTraits) -> RunResult<()> {
    let journal = &context.reporter.journal;
    if traits.splits_integers {
        journal.warn(
            "INTEGERS_INEXACT",
            "the cores compute 32-bit integers in float32; random numbers are computed by parts of 12 and 16 \
             bits, and are the same as elsewhere",
        )?;
    }
    if traits.keeps_arguments {
        journal.warn(
            "DONATION_OFF",
            "results that replace arguments in place are wrong or refused on these cores; programs keep their \
             arguments, and need more memory",
        )?;
    }
    Ok(())
}

/// The checkpoint to continue from, if there is one.
fn find_checkpoint(context: &Context) -> RunResult<Option<Resumed>> {
    let source = CheckpointSource {
        spec: &context.spec,
        run_dir: &context.run_dir,
        remote: &context.remote,
        journal: &context.reporter.journal,
        is_for_hosts: !context.hosts.is_alone(),
    };
    checkpoint::find(&source, &context.hosts)
}

impl Inputs {
    fn prepare(self, context: &Context, cores: LocalCores) -> RunResult<(Session, Prepared)> {
        let job = &context.spec.job;
        let validation = self.evaluator(context, self.splits.validation.clone())?;
        if let (Some(rule), Some(evaluator)) = (BestRule::of(&job.train), &validation) {
            rule.check(&evaluator.metric_names("eval"))?;
        }
        let test = self.evaluator(context, self.splits.test.clone())?;
        let start = self.start_values(context)?;
        equality::check_start(&context.hosts, &start)?;
        let mut session = self.session(context, cores, [&validation, &test])?;
        let programs = self.programs(job, &session, [&validation, &test]);
        let (eviction, activity) = (context.clone(), &context.reporter.activity);
        if job.resources.platform == Platform::Neuron {
            let stop = context.stop.clone();
            session.end_compilers_on(Arc::new(move || stop.reason().is_some()))?;
        }
        let evict = move || evict_cache(&eviction).map_err(TrainerError::of_observer);
        session.prepare(&programs, evict)?;
        // While programs are compiled or read from the cache.
        session.start(&start)?;
        activity
            .set_peak_flops(session.peak_flops(recipe::precision(&job.train)).unwrap_or_default());
        activity.set_memory_total(session.core_memory_bytes().unwrap_or_default());
        let train = &self.splits.planned()?.set;
        let (train_rows, collator) = (train.len() as u64, self.padding.train_collator(train));
        let Inputs { resumed, recipe, open, sampler, timetable, first, .. } = self;
        let prepared = Prepared {
            resumed,
            recipe,
            train_rows,
            collator,
            open,
            sampler,
            timetable,
            first,
            validation,
            test,
        };
        Ok((session, prepared))
    }

    /// The run's programs in the order of their first use.
    pub(super) fn programs(
        &self,
        job: &JobFile,
        session: &Session,
        [validation, test]: [&Option<Evaluator>; 2],
    ) -> Vec<ProgramShape> {
        let timetable = &self.timetable;
        let done = self.resumed.as_ref().map_or(0, Resumed::step);
        let [first, end] = [done, timetable.max_steps].map(|steps| timetable.batches_before(steps));
        let uses = FirstUses {
            timetable,
            step_programs: session.programs.step_programs(),
            done,
            eval_on_start: job.train.eval_on_start,
            batches: self.batch_sizes(first..end),
            validation: validation.as_ref().map(Evaluator::programs).unwrap_or_default(),
            test: test.as_ref().map(Evaluator::programs).unwrap_or_default(),
        };
        uses.programs()
    }

    /// The sizes of some batches of the run, each with a batch that has them, in the order of first uses
    /// as far as lengths are known.
    fn batch_sizes(&self, batches: Range<u64>) -> Vec<(u64, BatchSizes)> {
        let end = self.first.as_ref().map_or(batches.end, |first| first.end);
        let mut sizes = self.sampler.first_uses(batches.start..end);
        if end == batches.end {
            return sizes;
        }
        let is_new = |new: &BatchSizes| sizes.iter().all(|(_, known)| known != new);
        let later: Vec<_> = self.sampler.sampled_sizes().into_iter().filter(is_new).collect();
        sizes.extend(later.into_iter().map(|sizes| (end, sizes)));
        sizes
    }

    pub(super) fn evaluator(
        &self,
        context: &Context,
        split: Option<Split>,
    ) -> RunResult<Option<Evaluator>> {
        let Some(split) = split else { return Ok(None) };
        let job = &context.spec.job;
        let task = Arc::clone(&self.open.task);
        let rows_per_core = job.train.per_device_eval_batch_size;
        let passes = Passes { rows_per_core, epochs: self.evaluations(), trains: false };
        let model = self.open.model.as_ref();
        let batching = Batching {
            ladders: self.ladders.clone(),
            rows_per_core: rows_per_core as usize,
            budget: length_budget(job, model, passes),
            padding: self.padding.padding(),
            data_shards: self.mesh.data_shards(),
            in_order: task.loss_depends_on_batches() || self.padding.depends_on_batch(),
        };
        let labels = task.labels(self.open.model.config())?;
        let collator = self.padding.collator(&split.set);
        let evaluated = EvaluatedSplit { split, task, labels, collator };
        let (reporter, hosts) = (context.reporter.clone(), context.hosts.clone());
        let evaluator = Evaluator::new(job, model, evaluated, &batching, reporter, hosts)?;
        Ok(Some(evaluator.with_writer(self.writer.clone())))
    }

    /// The number of evaluations of the run, about.
    fn evaluations(&self) -> f64 {
        let Timetable { max_steps, eval_steps, .. } = self.timetable;
        eval_steps.map_or(1.0, |steps| (max_steps as f64 / steps as f64).max(1.0))
    }

    /// A session of cores that have no values yet, with the caches in which `evaluators` generate.
    pub(super) fn session(
        &self,
        context: &Context,
        cores: LocalCores,
        evaluators: [&Option<Evaluator>; 2],
    ) -> RunResult<Session> {
        let job = &context.spec.job;
        let mesh = cores.mesh().clone();
        let cache = executable_cache(context, &mesh)?;
        let (mut devices, programs) = self.declare(job, cores, cache, evaluators)?;
        report_kernels(context, &devices[0])?;
        report_pipeline(context, &programs)?;
        context.reporter.activity.set_stages(stages_of(&mesh, &programs));
        for (state, device) in programs.states.iter().zip(&mut devices) {
            offload(job, state, device)?;
        }
        let observer = observer(&context.reporter, &context.run_dir);
        Ok(Session::new(devices, programs, observer))
    }

    /// Declares the state and the caches of `evaluators` on the cores of each stage, without values.
    pub(super) fn declare(
        &self,
        job: &JobFile,
        cores: LocalCores,
        cache: ExecutableCache,
        evaluators: [&Option<Evaluator>; 2],
    ) -> RunResult<(Vec<LazyDevice>, JobPrograms)> {
        let stages = (0..cores.mesh().size(Axis::Pipeline)).map(|stage| cores.of_stage(stage));
        let stages = stages.collect::<Result<Vec<_>, _>>()?.into_iter();
        let device = |cores| LazyDevice::new(cores, Some(cache.clone()), recipe::gpu_options(job));
        let mut devices: Vec<LazyDevice> = stages.map(device).collect();
        let OpenModel { model, reference, task, inputs, .. } = &self.open;
        let recorders = devices.iter_mut().map(LazyDevice::recorder_mut);
        let mut config = recipe::step_config(job)?;
        let (texts, width) = (self.sequences, embedding_width(model.as_ref()));
        config.forward.embedding =
            recipe::embedding::objective_with_sets(job, texts, &self.sets, width)?;
        let programs = JobPrograms::declare(&config, model, *inputs, task.readout(), recorders)?;
        let reference = reference.as_ref().map(|reference| &reference.model);
        let mut programs = programs.with_reference_model(reference);
        if let Some(writer) = &self.writer {
            let evaluated = evaluators.into_iter().flatten().flat_map(Evaluator::programs);
            programs.declare_generation(writer.step(), devices[0].recorder_mut(), evaluated)?;
        }
        Ok((devices, programs))
    }

    pub(super) fn start_values(&self, context: &Context) -> RunResult<StartValues> {
        let (job, journal) = (&context.spec.job, &context.reporter.journal);
        let Some(resumed) = &self.resumed else {
            let parameters = self.open.load_weights(job, journal)?;
            let reference = self.named_reference(job)?;
            return Ok(StartValues { parameters, reference, ..StartValues::default() });
        };
        let start = Instant::now();
        let mut values = resumed.load(journal, self.open.model.as_ref(), &self.recipe)?;
        values.parameters = self.open.complete(job, values.parameters)?;
        values.reference = self.named_reference(job)?;
        if job.has_reference() && values.reference.is_none() {
            values.reference = Some(self.open.start_weights(job)?.arrays);
        }
        self.open.report_resumed(journal, start)?;
        Ok(values)
    }

    /// The weights of the reference that the job names, if it does.
    fn named_reference(&self, job: &JobFile) -> RunResult<Option<Vec<HostArray>>> {
        let OpenModel { model, reference, .. } = &self.open;
        let weights = |named: &NamedReference| named.weights(model.as_ref(), job.train.seed);
        reference.as_ref().map(weights).transpose()
    }
}

/// The pipeline stage of each core of this host; none without a pipeline.
fn stages_of(mesh: &Mesh, programs: &JobPrograms) -> CoreStages {
    let cores = if programs.pipeline.is_divided() { mesh.replica_count() } else { 0 };
    CoreStages {
        of_cores: (0..cores).map(|core| mesh.coordinates(core).pipeline).collect(),
        first: programs.stages.start,
        count: programs.pipeline.stages,
    }
}

/// The cache of executables. Programs that span hosts are compiled by all of these or by none: hosts read only what
/// all that have the same stages have in their caches.
fn executable_cache(context: &Context, mesh: &Mesh) -> RunResult<ExecutableCache> {
    let cache = ExecutableCache::open(&context.spec.cache_dir.join("executables"))?;
    if mesh.hosts() == 1 || context.spec.job.resources.platform == Platform::Cpu {
        return Ok(cache);
    }
    let own = cache.newest_keys()?;
    let agreed = context.hosts.common("executables", &own, &mesh.grid().groups())?;
    Ok(cache.restricted_to(agreed))
}

/// Keeps in host memory what the job offloads. Fails where the cores reach no such memory.
fn offload(job: &JobFile, state: &TrainState, device: &mut LazyDevice) -> RunResult<()> {
    let offload = job.parallel.offload;
    if !offload.is_any() {
        return Ok(());
    }
    let memory = HostMemory::of(device.cores()).map_err(|error| no_host_memory(offload, &error))?;
    if offload.optimizer {
        state.offload(device, &memory);
    }
    Ok(())
}

fn no_host_memory(offload: Offload, error: &traind_xla::Error) -> RunError {
    RunError::Field {
        name: "parallel.offload",
        value: offload.to_string(),
        problem: format!("the plugin cannot keep buffers in host memory: {error}"),
    }
}

/// Says whether programs call kernels, where they could.
fn report_kernels(context: &Context, device: &LazyDevice) -> RunResult<()> {
    let journal = &context.reporter.journal;
    if device.recorder().calls_kernels() {
        return Ok(journal.info(format!("Programs call traind's kernels {KERNELS_VERSION}"))?);
    }
    match reason_without_kernels(device.cores().client()) {
        Some(reason) => Ok(journal.info(format!("Programs call no kernels: {reason}"))?),
        None => Ok(()),
    }
}

/// Reports the stages of a pipeline and their idle time, where there are several that train.
fn report_pipeline(context: &Context, programs: &JobPrograms) -> RunResult<()> {
    let (pipeline, train) = (&programs.pipeline, &context.spec.job.train);
    if !train.do_train || !pipeline.is_divided() {
        return Ok(());
    }
    let pipeline_order = programs.pipeline_order(train.per_device_train_batch_size as usize);
    let (stages, count) = (pipeline_order.stages, pipeline_order.microbatches);
    let idle = 100.0 * pipeline_order.idle_share();
    let journal = &context.reporter.journal;
    Ok(journal.info(format!(
        "{count} micro-batches pass through {stages} stages, which are idle for {idle:.1} % of the time \
         that they work"
    ))?)
}

/// Evicts from the cache to its size limit, now that the run has locked or read its entries.
pub(super) fn evict_cache(context: &Context) -> RunResult<()> {
    let journal = &context.reporter.journal;
    let Some(bytes_max) = context.spec.cache_bytes_max else { return Ok(()) };
    let cache_dir = &context.spec.cache_dir;
    let folders = CacheFolders {
        of_folders: ["hub", "objects", "tokens"].map(|name| cache_dir.join(name)).to_vec(),
        of_files: vec![cache_dir.join("executables")],
    };
    match traind_cache::evict(&folders, bytes_max) {
        Ok(0) => {}
        Ok(bytes) => {
            let (mib, folder) = (bytes.div_ceil(1 << 20), cache_dir.display());
            journal.info(format!("evicted {mib} MiB of {folder} that were not used recently"))?;
        }
        Err(error) => journal.warn("CACHE_NOT_CLEANED", error.to_string())?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use traind_proto::reasons;

    use super::*;

    /// The plugins for CPUs and for GPUs have such memory.
    #[test]
    fn a_plugin_without_host_memory_is_reported_with_the_memory_that_it_has() {
        let [kind, available] = ["pinned_host", "device"].map(str::to_owned);
        let missing = traind_pjrt::Error::NoSuchMemory { kind, available: vec![available] };
        let offload = Offload { activations: true, optimizer: true };
        let failure = no_host_memory(offload, &missing.into()).failure();
        assert_eq!(failure.reason, reasons::JOB_FILE_INVALID);
        assert_eq!(failure.field.as_deref(), Some("parallel.offload"));
        for words in ["activations, optimizer", "pinned_host", r#"only ["device"]"#] {
            assert!(failure.message.contains(words), "{} lacks {words}", failure.message);
        }
    }
}
