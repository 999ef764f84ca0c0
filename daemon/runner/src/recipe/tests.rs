//! Every value of every enumeration that is converted, and every setting that the trainer has.

mod elsewhere;
mod objectives;
mod rows;

use std::collections::{BTreeSet, HashSet};
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};

use traind_job_file::{PeftMethod, WeightDtype};
use traind_models::optimizers;
use traind_models::tasks::TaskLoss;

use super::*;

/// The enumerations of the job file that have no counterpart in trainer or loader: where one is read, it decides.
const NOT_CONVERTED: [&str; 11] = [
    "BatchSampler",
    "Engine",
    "EvalStrategy",
    "ExcessLength",
    "HubStrategy",
    "LoggingStrategy",
    "Platform",
    "Quoting",
    "SaveStrategy",
    "TaintEffect",
    "TolerationOperator",
];

fn job(sections: &str) -> JobFile {
    let yaml = format!(
        "name: a\nmodel: {{name_or_path: ./a, task: causal-lm}}\ndata: {{train: a.txt}}\n\
         output_dir: out\n{sections}"
    );
    JobFile::parse(&yaml, Path::new("/")).unwrap().job
}

/// The trainer's values for `all`, which differ from each other, each as its name.
fn converted<T: Copy, U: Debug>(all: &[T], mut convert: impl FnMut(T) -> U) -> Vec<String> {
    let names: Vec<String> = all.iter().map(|it| format!("{:?}", convert(*it))).collect();
    let distinct: HashSet<&String> = names.iter().collect();
    assert_eq!(distinct.len(), all.len(), "{names:?}");
    names
}

/// Names of values, without fields and without regard to their spelling.
fn words<T: Debug>(all: &[T]) -> Vec<String> {
    all.iter().map(|it| format!("{it:?}")).collect()
}

#[test]
fn every_value_of_an_enumeration_has_one_of_the_trainer() {
    for named in CorePlacement::ALL {
        let axes = placement(*named).unwrap().order().map(|axis| axis.to_string());
        let initials = axes.iter().filter_map(|axis| axis.chars().next());
        assert_eq!(initials.collect::<String>().to_uppercase(), named.order());
    }
    assert_eq!(PeftMethod::ALL, [PeftMethod::Lora], "of which `lora` makes adapters");
    let dtypes = WeightDtype::ALL.iter().map(|it| frozen_dtype(*it).unwrap_or(DType::F32));
    assert_eq!(dtypes.collect::<Vec<_>>(), [DType::F32, DType::BF16]);
    for named in NamedProblem::ALL {
        assert_eq!(ProblemType::from_name(named.as_str()), Some(problem_type(*named)));
    }
    let with_cudnn = AttnImplementation::ALL.iter().filter(|it| has_cudnn_attention(**it));
    assert_eq!(with_cudnn.count(), 1);
}

/// The texts of the source files in `folder` and below, each with its path from there.
fn sources(folder: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !path.is_dir() {
            return vec![(name, fs::read_to_string(path).unwrap())];
        }
        let below = sources(&path).into_iter();
        below.map(|(file, text)| (format!("{name}/{file}"), text)).collect()
    };
    entries.flat_map(read).collect()
}

/// The enumerations that the sections of a job file have.
fn declared() -> BTreeSet<String> {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto/job-file/src/schema");
    let mut found = BTreeSet::new();
    for (_, text) in sources(&schema) {
        let names = text.split("pub enum ").skip(1).filter_map(|rest| rest.split(' ').next());
        found.extend(names.map(str::to_owned));
    }
    found
}

/// A new enumeration has a test here, or stands in the list of the others.
#[test]
fn every_enumeration_of_the_job_file_is_tested() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/recipe");
    let tests = ["tests.rs", "tests/objectives.rs", "tests/rows.rs"]
        .map(|file| fs::read_to_string(root.join(file)).unwrap())
        .concat();
    let all = declared();
    // Where the trainer's has the same name, the job file's has another one here.
    let alias = |name: &str| match name {
        "ProblemType" => "NamedProblem".to_owned(),
        name => name.to_owned(),
    };
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let is_tested = |name: &str| {
        let all_of = format!("{}::ALL", alias(name));
        let mut uses = tests.match_indices(&all_of).map(|(at, _)| at);
        uses.any(|at| !tests[..at].ends_with(is_word))
    };
    let untested = all.iter().filter(|name| !is_tested(name));
    let untested: Vec<&str> = untested.map(String::as_str).collect();
    assert_eq!(untested, NOT_CONVERTED);
}

#[test]
fn every_optimizer_is_one_of_the_models() {
    for optim in Optim::ALL {
        let mut train = job(&format!("train: {{optim: {optim}}}")).train;
        let config = optimizer_config(&train);
        assert_eq!(config.name, optim.as_str());
        assert!(optimizers::build(&config.name, &config.settings).is_ok(), "{optim}");
        train.do_train = false;
        assert_eq!(optimizer_config(&train).name, "sgd");
    }
}

#[test]
fn the_tasks_of_the_job_file_are_those_of_the_models() {
    let mut model = job("").model;
    let tasks: HashSet<Task> = TaskName::ALL
        .iter()
        .map(|name| {
            model.task = *name;
            task(&model).unwrap()
        })
        .collect();
    assert_eq!(tasks, HashSet::from(Task::ALL), "tasks that no job file names, or the reverse");
}

#[test]
fn a_named_loss_has_the_settings_of_the_job() {
    let train = job("train: {loss: focal, loss_args: {gamma: 3}}").train;
    let settings = loss_settings(&train);
    assert_eq!((settings.name.as_deref(), settings.args["gamma"]), (Some("focal"), 3.0));
    assert!(TaskLoss::new(&settings).unwrap().is_some());
    assert_eq!(loss_settings(&job("").train), LossSettings::default());
}

#[test]
fn groups_have_the_settings_of_the_job_but_their_own() {
    let train = job(
        "train: {learning_rate: 2e-3, adam_beta1: 0.8, weight_decay: 0.1, optim_args: {}, param_groups: [\
         {match: head, learning_rate: 1e-2}, \
         {match: '*bias', weight_decay: 0, optim: muon, optim_args: {adjust_lr_fn: original}}]}",
    )
    .train;
    let OptimizerConfig { groups, .. } = optimizer_config(&train);
    let [head, bias] = &groups[..] else { panic!("{groups:?}") };
    assert_eq!((head.rate, head.weight_decay, &head.optim), (5.0, None, &None));
    assert_eq!((bias.rate, bias.weight_decay), (1.0, Some(0.0)));
    let (name, settings) = bias.optim.as_ref().unwrap();
    assert_eq!((name.as_str(), settings.adam_beta1), ("muon", 0.8));
    assert_eq!(settings.args["adjust_lr_fn"], Arg::Word("original".to_owned()));
}

#[test]
fn products_have_the_type_of_the_job() {
    let types = |sections: &str| {
        let train = job(&format!("train: {{{sections}}}")).train;
        (compute_dtype(&train), precision(&train))
    };
    assert_eq!(types(""), (DType::F32, Precision::Float32));
    assert_eq!(types("tf32: true"), (DType::F32, Precision::TensorFloat32));
    assert_eq!(types("bf16: true"), (DType::BF16, Precision::Half));
    assert_eq!(types("fp16: true"), (DType::F16, Precision::Half));
}

#[test]
fn micro_batches_are_no_larger_than_the_parts_of_batches() {
    let mut job = job("resources: {cores: 2}\nparallel: {pipeline: 2}\n\
                       train: {per_device_train_batch_size: 96}");
    for (part_rows, expect) in
        [(None, None), (Some(64), Some(8)), (Some(8), Some(12)), (Some(7), Some(16))]
    {
        job.embedding.mini_batch_size = part_rows;
        assert_eq!(pipeline_config(&job).microbatches, expect, "{part_rows:?}");
    }
    job.parallel.microbatches = Some(4);
    assert_eq!(pipeline_config(&job).microbatches, Some(4));
}

/// A job file without sections trains as the trainer does without settings, on one core.
#[test]
fn settings_of_a_step_are_those_of_the_job() {
    let config = step_config(&job("")).unwrap();
    assert_eq!(config.mesh, MeshConfig::default());
    assert_eq!(config.pipeline, PipelineConfig::default());
    let config = step_config(&job(
        "resources: {cores: 8}\n\
         parallel: {tensor: 2, pipeline: 2, pipeline_interleave: 2, microbatches: 4, placement: TPD}\n\
         train: {per_device_train_batch_size: 4, gradient_accumulation_steps: 3, max_grad_norm: 0, seed: 7, \
         label_smoothing_factor: 0.1, neftune_noise_alpha: 5, gradient_checkpointing: true}",
    ))
    .unwrap();
    let MeshConfig { data, tensor, pipeline, .. } = config.mesh;
    assert_eq!((data, tensor, pipeline, config.mesh.stages()), (2, 2, 2, 2));
    let PipelineConfig { interleave, microbatches, loading_horizon } = config.pipeline;
    assert_eq!((interleave, microbatches, loading_horizon), (2, Some(4), None));
    assert_eq!((config.rows_per_step, config.state.rows_per_core, config.state.seed), (24, 4, 7));
    assert!(config.state.accumulates && config.state.max_grad_norm.is_infinite());
    let forward = config.forward;
    assert!(forward.embedding_noise && forward.gradient_checkpointing && forward.dropout);
    assert_eq!(forward.loss.label_smoothing, 0.1);
}
