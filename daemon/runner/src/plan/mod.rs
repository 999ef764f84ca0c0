//! `traind-runner plan`: estimates what a job takes from its job file and the model's `config.json`.
//! It reads the headers of weights and the columns of data and uses no device, so it takes milliseconds,
//! unless the config of a model on the hub must be fetched first.
//!
//! Reads a [`PlanRequest`] as JSON from standard input and writes a [`PlanAnswer`] to standard output.
//!
//! Imports `model`, `data`, `tasks`, `recipe`, `progress` and `rates`.

mod bound;
mod candidates;
mod compiled;
mod declared;
mod devices;
mod effects;
mod excerpts;
mod fitting;
mod groups;
mod guide;
mod memory;
mod meshes;
mod mpi;
mod neuron;
mod parameter_groups;
mod program_figures;
mod refusals;
mod search;
mod stages;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use traind_job_file::commands::{
    CoreMemory, MeshSearch, Misfit, Parallelism, Plan, PlanAnswer, PlanRequest, PlanViolation,
    PlanWarning,
};
use traind_job_file::{JobFile, SaveStrategy, TaskName};
use traind_loader::ModelInputs;
use traind_models::{Model, ModelConfig, registry};
use traind_proto::reasons;
use traind_proto::v1::Failure;
use traind_wording::counted_as;

use crate::data::{self, EarlyRows, lengths};
use crate::error::{RunError, RunResult, of_value};
use crate::model;
use crate::model::guide::{GuideConfig, with_width, without_width};
use crate::own_output::answer_request;
use crate::recipe;
use crate::step::Readout;
use crate::tasks::{self, JobTask};
use guide::PlannedGuide;
use memory::Recordings;
use refusals::{generation, metrics, texts, vocabulary, weights};
use traind_xla::verify::neuron::{Finding, Limits};

pub(crate) use mpi::{MEASURE_MPI, measure as measure_mpi};

/// Code of the warning about a search that names no device.
const DEVICE_ASSUMED: &str = "DEVICE_ASSUMED";

/// Code of the warning about a job whose own mesh does not fit on the machines that it is planned for.
const DOES_NOT_FIT: &str = "DOES_NOT_FIT";

/// Code of the warning about a search that planned some meshes alone.
const SEARCH_ENDED: &str = "SEARCH_ENDED";

/// Answers the request on standard input.
pub(crate) fn answer() -> anyhow::Result<()> {
    answer_request(|request: &PlanRequest| match plan(request) {
        Ok(plan) => Ok(PlanAnswer::Plan(Box::new(plan))),
        Err(error) => Ok(PlanAnswer::Violations(violations(&request.job, error)?)),
    })
}

/// The violations that an error reports; one that is none where it reports none.
fn violations(job: &JobFile, error: RunError) -> RunResult<Vec<PlanViolation>> {
    let errors = match error {
        RunError::Several(errors) => errors,
        error => vec![error],
    };
    let (mut found, mut other) = (Vec::new(), None);
    for error in errors {
        match violation(&error).or_else(|| weights::violation(job, &error)) {
            Some(violation) => found.push(violation),
            None => other = other.or(Some(error)),
        }
    }
    match other.filter(|_| found.is_empty()) {
        Some(error) => Err(error),
        None => Ok(found),
    }
}

/// The violation that an error reports, if it is one of the job file. Its description follows the name of the field.
fn violation(error: &RunError) -> Option<PlanViolation> {
    if let RunError::Field { name, value, problem } = error {
        let description = match value.as_str() {
            "" => problem.clone(),
            value => format!("{}: {problem}", of_value(value).trim_start()),
        };
        return Some(PlanViolation { field: (*name).to_owned(), description });
    }
    let Failure { reason, message, field, .. } = error.failure();
    match field {
        Some(field) if reason == reasons::JOB_FILE_INVALID => {
            let description = message.strip_prefix(&format!("{field}: ")).unwrap_or(&message);
            Some(PlanViolation { description: description.to_owned(), field })
        }
        _ => None,
    }
}

fn plan(request: &PlanRequest) -> RunResult<Plan> {
    plan_within(request, search::COMPARING_TIME)
}

/// Plans a job, and begins to plan no further meshes of a search after `comparing_time`.
fn plan_within(request: &PlanRequest, comparing_time: Duration) -> RunResult<Plan> {
    let guide = GuideConfig::planned(&request.job, request.may_fetch)?;
    let job = with_width(request.job.clone(), guide.as_ref());
    let request = &PlanRequest { job, ..request.clone() };
    let search = search_of(request);
    let device = search.as_ref().map_or(&request.device, |search| &search.device);
    let mut planned = PlannedModel::of_request(request, search.as_ref())?;
    let (about_data, rows) = planned.check(request)?;
    planned.rows = rows;
    let guide = PlannedGuide::of_job(&request.job, guide, request.may_fetch)?;
    guide.iter().try_for_each(|guide| guide.check(request.bytes_per_core_max))?;
    // Changes that make a program small enough are those of this job.
    let with_remedy = |error| {
        let of_core = planned.neuron.as_ref().map(|limits| limits.core.memory_bytes);
        let bytes_max = request.bytes_per_core_max.or(of_core);
        neuron::with_remedy(error, || fitting::smaller(&request.job, &planned, bytes_max, device))
    };
    let compare = |search| {
        let end = Some(Instant::now() + comparing_time);
        search::search(&request.job, &planned, search, request.bytes_per_core_max, end)
    };
    let found = search.as_ref().map(compare).transpose().map_err(with_remedy)?;
    let bytes_per_core_max =
        found.as_ref().map_or(request.bytes_per_core_max, |found| found.bytes_per_core_max);
    let fits = |memory: &CoreMemory| memory.fits(bytes_per_core_max);
    let job = &planned_job(&request.job, &planned, found.as_ref(), fits)?;
    let recordings = Recordings::of(job, &planned).map_err(with_remedy)?;
    let is_compared = search.as_ref().is_some_and(|search| !search.own_mesh);
    // A search puts first what fits.
    let misfit = (!fits(&recordings.memory)).then(|| match is_compared {
        true => fitting::misfit_of_all(&request.job, job, &planned, bytes_per_core_max),
        false => fitting::misfit(job, &planned, bytes_per_core_max, device),
    });
    let effects = || effects_of(job, &planned, &recordings, guide.as_ref());
    let parallelism = request.with_effects.then(effects).transpose()?;
    let mut warnings = warnings_of(job, search.as_ref(), &recordings.warnings);
    warnings.extend(about_data);
    let unfit = misfit.as_ref().zip(bytes_per_core_max).filter(|_| search.is_some());
    let of_all = found.as_ref().filter(|_| is_compared).map(|found| found.tried);
    warnings.extend(unfit.map(|unfit| does_not_fit(&recordings.memory, unfit, of_all)));
    warnings.extend(
        found.as_ref().filter(|found| !found.is_whole).map(|_| search_ended(comparing_time)),
    );
    let model = planned.model.as_ref();
    let disk = DiskBytes::of(job, model, recordings.optimizer_bytes_whole);
    let optimizers = recipe::optimizers(&job.train, model)?;
    Ok(Plan {
        model_type: model.config().model_type()?.to_owned(),
        parameters: parameter_count(model),
        rows: job.train.per_device_train_batch_size,
        positions: planned.positions(job)?.into(),
        parameter_groups: parameter_groups::of(&job.train, &optimizers, model),
        checkpoint_bytes: disk.checkpoint,
        output_bytes: disk.output,
        disk_bytes: disk.output + checkpoints(job) * disk.checkpoint,
        memory: recordings.memory,
        bytes_per_core_max,
        misfit,
        parallelism,
        warnings,
        job: request.job.parallel.auto.then(|| Box::new(without_width(job.clone()))),
        processor: found.as_ref().and_then(|found| found.processor),
        network: found.as_ref().and_then(|found| found.network.clone()).unwrap_or_default(),
        meshes: found.map(|found| found.meshes).unwrap_or_default(),
    })
}

/// The job as it is planned: with the mesh that a search has found, or else with a batch that fits, if it may be
/// smaller.
fn planned_job(
    job: &JobFile,
    planned: &PlannedModel,
    found: Option<&search::Found>,
    fits: impl Fn(&CoreMemory) -> bool,
) -> RunResult<JobFile> {
    match found {
        Some(found) => Ok(found.job.clone()),
        None if job.train.auto_find_batch_size => fitting::with_fitting_batch(job, planned, fits),
        None => Ok(job.clone()),
    }
}

/// The effects of the parallel settings, and that of the guide.
fn effects_of(
    job: &JobFile,
    planned: &PlannedModel,
    recordings: &Recordings,
    guide: Option<&PlannedGuide>,
) -> RunResult<Parallelism> {
    let mut parallelism = effects::of(job, planned, recordings)?;
    parallelism.effects.extend(guide.map(|guide| guide.effect(planned.model.as_ref())));
    Ok(parallelism)
}

/// The search that was asked for, on the device of the request where it names none.
fn search_of(request: &PlanRequest) -> Option<MeshSearch> {
    let mut search = request.search.clone();
    if let Some(search) = &mut search {
        if search.device.is_empty() {
            search.device.clone_from(&request.device);
        }
        search.own_mesh &= !request.job.parallel.auto;
    }
    search
}

fn warnings_of(
    job: &JobFile,
    search: Option<&MeshSearch>,
    findings: &[Finding],
) -> Vec<PlanWarning> {
    let found = findings.iter().map(|finding| PlanWarning {
        code: finding.code.to_owned(),
        message: format!("resources.platform: {}", finding.message()),
    });
    let unnamed = search.filter(|it| it.device.is_empty() && !job.parallel.auto);
    let assumed = unnamed.and_then(|_| devices::assumed(job.resources.platform));
    let assumed = assumed.map(|device| PlanWarning {
        code: DEVICE_ASSUMED.to_owned(),
        message: format!("no device is named: times and memory are those of {device}"),
    });
    found.chain(assumed).chain(weights::warnings(job)).collect()
}

/// `of_all`: the number of meshes that were compared, of which the first is the one that needs the least.
fn does_not_fit(
    memory: &CoreMemory,
    (misfit, most): (&Misfit, u64),
    of_all: Option<usize>,
) -> PlanWarning {
    let words = fitting::misfit_words(memory.bytes_per_core, most, misfit);
    let message = match of_all {
        Some(count) => {
            let meshes = counted_as(count, "mesh", "meshes");
            format!("none of {meshes} of these cores fits: on the first of those below, {words}")
        }
        None => words,
    };
    PlanWarning { code: DOES_NOT_FIT.to_owned(), message }
}

fn search_ended(comparing_time: Duration) -> PlanWarning {
    PlanWarning {
        code: SEARCH_ENDED.to_owned(),
        message: format!(
            "meshes were compared for {} s, and those that take the longest were left out: compare again when the host is \
             less busy",
            comparing_time.as_secs()
        ),
    }
}

fn parameter_count(model: &Model) -> u64 {
    model.parameters().iter().map(|spec| spec.shape.element_count() as u64).sum()
}

/// The bytes of files that a job writes.
struct DiskBytes {
    checkpoint: u64,
    output: u64,
}

impl DiskBytes {
    fn of(job: &JobFile, model: &Model, optimizer: u64) -> DiskBytes {
        let saved = model::saved_bytes(model);
        // A merged model is float32.
        let output = if job.peft.merge { 4 * parameter_count(model) } else { saved };
        DiskBytes { checkpoint: saved + optimizer, output }
    }
}

/// The number of checkpoints at one time: those that are kept, and the one being written. Without a
/// limit it depends on the data, and only one is counted. Where they are saved to a bucket, the staged ones count.
fn checkpoints(job: &JobFile) -> u64 {
    match (job.train.save_strategy, job.staged_checkpoints_max()) {
        (SaveStrategy::No, _) => 0,
        (_, Some(staged)) => staged,
        _ => 1 + u64::from(job.train.save_total_limit.unwrap_or_default()),
    }
}

/// Faults of a job that do not depend on each other.
#[derive(Default)]
struct Faults(Vec<RunError>);

impl Faults {
    /// Keeps a fault, or returns what was checked.
    fn add<T>(&mut self, checked: RunResult<T>) -> Option<T> {
        checked.map_err(|error| self.0.push(error)).ok()
    }

    fn result(mut self) -> RunResult<()> {
        match self.0.len() {
            0 => Ok(()),
            1 => Err(self.0.remove(0)),
            _ => Err(RunError::Several(self.0)),
        }
    }
}

/// The model of a job, by its config alone.
pub(crate) struct PlannedModel {
    model: Arc<Model>,
    task: Arc<dyn JobTask>,
    /// All inputs, since the plan opens no tokenizer.
    inputs: ModelInputs,
    readout: Readout,
    /// The limits of the job's programs, if they are for NeuronCores.
    neuron: Option<Limits>,
    /// The rows of the files, as far as these were seen.
    rows: EarlyRows,
}

impl PlannedModel {
    /// The same model, any of whose programs can run.
    fn without_limits(&self) -> PlannedModel {
        PlannedModel {
            model: Arc::clone(&self.model),
            task: Arc::clone(&self.task),
            inputs: self.inputs,
            readout: self.readout,
            neuron: None,
            rows: self.rows,
        }
    }

    /// The model of a request, for the device that it is planned or searched for.
    fn of_request(request: &PlanRequest, search: Option<&MeshSearch>) -> RunResult<PlannedModel> {
        let job = &request.job;
        let planned = PlannedModel::of_job(job, request.may_fetch)?;
        let device = search.map_or(&request.device, |search| &search.device);
        let runtime = search.map_or("", |search| &search.neuron_runtime);
        let runtime = neuron::named_runtime(runtime, job.resources.platform)?;
        if let Some(search) = search {
            let per_host = search::cores_per_host(job, search.hosts)?;
            neuron::check_count(job, search, per_host)?;
        }
        let neuron = neuron::limits(job, device, runtime).map(|limits| Limits {
            instructions_max: request.instructions_max.unwrap_or(limits.instructions_max),
            ..limits
        });
        Ok(PlannedModel { neuron, ..planned })
    }

    /// Refuses weights, a tokenizer, settings and data that do not fit the job. Returns warnings about the data, and
    /// what is known of its rows.
    fn check(&self, request: &PlanRequest) -> RunResult<(Vec<PlanWarning>, EarlyRows)> {
        let (job, model) = (&request.job, self.model.as_ref());
        let mut faults = Faults::default();
        faults.add(weights::check(job, model, !request.may_fetch));
        faults.add(vocabulary::check(job, model));
        let about_data = self.check_settings(job, &mut faults);
        faults.result().map(|()| about_data)
    }

    fn of_job(job: &JobFile, may_fetch: bool) -> RunResult<PlannedModel> {
        PlannedModel::of_config(job, model::config(job, may_fetch)?, may_fetch)
    }

    /// The planned model of a config that was read before. Labels that only the data determine do not matter.
    fn of_config(
        job: &JobFile,
        mut config: ModelConfig,
        may_fetch: bool,
    ) -> RunResult<PlannedModel> {
        let task = tasks::of_job(job, &config)?;
        if let (None, Some(map)) = (job.model.num_labels, &job.data.label_map) {
            let classes: BTreeSet<_> = map.iter().map(|(_, class)| class).collect();
            config.set_num_labels(classes.len());
        }
        // The outputs of the first two, and the size of a generator, depend on no data.
        if matches!(
            job.model.task,
            TaskName::Reward | TaskName::Reranker | TaskName::ReplacedTokenDetection
        ) {
            task.configure(&mut config, None);
        }
        let head = recipe::task(&job.model)?;
        let mut model = registry::build(config, head)?;
        model::tune(&mut model, job, head)?;
        let model: Arc<Model> = model.into();
        model::check_packing(job, model.as_ref())?;
        recipe::optimizers(&job.train, model.as_ref())?;
        model::check_reference(job, model.as_ref(), may_fetch)?;
        let position_ids = job.separates_texts();
        let inputs = ModelInputs { token_type_ids: true, attention_mask: true, position_ids };
        let neuron = neuron::limits(job, "", None);
        let (readout, rows) = (task.readout(), EarlyRows::default());
        Ok(PlannedModel { model, readout, task, inputs, neuron, rows })
    }

    /// The numbers of classes that the model may have: where only the data say it, two or more.
    fn classes(&self, job: &JobFile) -> RunResult<Vec<usize>> {
        match weights::knows_labels(job) {
            true => Ok(vec![self.model.config().num_labels()?]),
            false => Ok(vec![2, 3]),
        }
    }

    /// Finds settings that do not fit the model or the files of the data. Returns warnings about these, and what is
    /// known of their rows.
    fn check_settings(&self, job: &JobFile, faults: &mut Faults) -> (Vec<PlanWarning>, EarlyRows) {
        let (model, task) = (&self.model, self.task.as_ref());
        let positions = model.max_positions() as u32;
        let fits = faults.add(lengths::check(job, positions)).is_some();
        if fits {
            faults.add(lengths::target_ladder(job, task, positions));
        }
        faults.add(generation::check(job, model));
        // Files that another job writes may become others.
        let splits = match job.resources.after {
            None => data::check_files(job, task, model),
            Some(_) => Ok(data::EarlySplits::default()),
        };
        let Some(splits) = faults.add(splits) else { return Default::default() };
        let evaluated = splits.evaluated(job);
        faults.add(texts::check(job, task, &splits));
        let classes = faults.add(self.classes(job));
        faults
            .add(classes.map_or(Ok(()), |classes| metrics::check(job, task, &classes, evaluated)));
        let warnings = splits.warnings.into_iter();
        let code = data::DOUBTFUL_LABELS;
        let warnings = warnings.map(|message| PlanWarning { code: code.to_owned(), message });
        (warnings.collect(), splits.rows)
    }

    /// The length of the job's longest row.
    fn positions(&self, job: &JobFile) -> RunResult<u32> {
        Ok(self.lengths(job)?[0])
    }

    /// Whether no setting makes rows shorter: those of tokens are not cut.
    fn has_fixed_lengths(&self) -> bool {
        self.rows.are_tokens && self.rows.tokens.is_some_and(|it| it.are_known)
    }

    /// The lengths of the job's longest row and of its longest target, which is 0 where rows have none.
    fn lengths(&self, job: &JobFile) -> RunResult<[u32; 2]> {
        let positions = self.model.max_positions() as u32;
        let limit = lengths::limit(job, self.task.as_ref(), positions);
        let longest = job.row_length().map_or(limit, |length| length.min(limit));
        let longest = lengths::ladder(job, self.task.as_ref(), longest, positions)?.longest();
        let target = self.task.max_target_length().unwrap_or_default();
        lengths::planned(job, [longest, target], self.rows, positions)
    }
}

#[cfg(test)]
mod tests;
