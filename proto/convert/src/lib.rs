//! Training settings of other tools as job files: command lines of transformers' example scripts,
//! TrainingArguments, axolotl's, LLaMA-Factory's and TRL's YAML, SageMaker's hyperparameters.
//!
//! A source is a file in `sources` with a table of its keys. Each key becomes a field of the job
//! file, is dropped with a reason, or is refused with an alternative; keys that no table has are
//! refused, so that none is lost unseen. Nothing here looks at files or the network.

mod application;
mod draft;
pub mod guess;
pub mod guess_head;
mod rule;
mod shared;
mod shell;
mod shell_variables;
mod sources;
mod values;

use std::fmt;
use std::path::Path;

use serde_json::{Map, Value};

pub use draft::{Converted, Note};

use draft::Draft;
use shell_variables::assignment;
use traind_job_file::Tool;

/// A tool whose settings are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// TrainingArguments, as `to_json_string` and `training_args.json` have them.
    TrainingArguments,
    /// axolotl's YAML.
    Axolotl,
    /// LLaMA-Factory's YAML.
    LlamaFactory,
    /// Hyperparameters of SageMaker's estimator.
    SageMaker,
    /// Configs of TRL's scripts.
    Trl,
}

/// Settings that cannot be converted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Each key with the reason and, where there is one, an alternative.
    pub notes: Vec<Note>,
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let lines: Vec<String> = self.notes.iter().map(ToString::to_string).collect();
        write!(formatter, "the settings cannot be converted\n  {}", lines.join("\n  "))
    }
}

impl std::error::Error for Refused {}

impl Refused {
    fn because(key: &str, text: impl Into<String>) -> Self {
        Self { notes: vec![Note { key: key.to_owned(), text: text.into() }] }
    }
}

/// Converts YAML or JSON. `fields` are values by field path that stand in for those of the source,
/// and for what it does not say.
pub fn convert(
    source: Option<Source>,
    text: &str,
    fields: &[(String, String)],
) -> Result<Converted, Refused> {
    convert_with(source, text, fields, &|_| None)
}

/// Converts settings that refer to other files, whose texts `read` returns: LLaMA-Factory's `dataset_info.json`, and
/// DeepSpeed's JSON.
pub fn convert_with(
    source: Option<Source>,
    text: &str,
    fields: &[(String, String)],
    read: &dyn Fn(&Path) -> Option<String>,
) -> Result<Converted, Refused> {
    if source.is_none() && is_script(text) {
        return convert_script_with(text, fields, read);
    }
    if is_rows(text) {
        let problem = "is rows of data, a JSON object on each line: a job names such a file in data.train, and `traind \
            init MODEL FILE` writes its job file";
        return Err(Refused::because("", problem));
    }
    let settings: Result<Value, _> = serde_saphyr::from_str(text);
    if let (Ok(Value::String(_)) | Err(_), Some(problem)) = (&settings, program(text)) {
        return Err(Refused::because("", problem));
    }
    let settings = settings.map_err(|error| Refused::because("", describe(&error)))?;
    let Value::Object(mut settings) = settings else {
        return Err(Refused::because(
            "",
            match settings {
                Value::Array(_) => {
                    "is a list, such as rows of data, which a job names in data.train; settings are a mapping of keys to values"
                }
                Value::Null => "is empty",
                _ => "is not a mapping of keys to values",
            },
        ));
    };
    let Some(source) = source.or_else(|| recognize(&settings)) else {
        return Err(Refused::because("", unrecognized(&settings)));
    };
    let mut draft = Draft::new(fields)?;
    sources::read(source, &mut settings, read, &mut draft)?;
    draft.finish(&header(title(source)))
}

/// Converts a command line that runs one of transformers' example scripts, such as `torchrun
/// --nproc_per_node 2 run_glue.py --do_train`.
///
/// `read` returns the text of a file that the command line refers to: its arguments as JSON, or
/// accelerate's `--config_file`.
pub fn convert_command(
    words: &[String],
    fields: &[(String, String)],
    read: &dyn Fn(&Path) -> Option<String>,
) -> Result<Converted, Refused> {
    let mut draft = Draft::new(fields)?;
    let script = sources::examples::read(words, read, &mut draft)?;
    draft.finish(&header(&format!("a command line of {script}")))
}

/// Converts the one command of a shell script that trains. Its redirections and pipes are left out.
pub fn convert_script(script: &str, fields: &[(String, String)]) -> Result<Converted, Refused> {
    convert_script_with(script, fields, &|_| None)
}

/// Converts a shell script whose command refers to files, whose texts `read` returns, as for `convert_command`.
pub fn convert_script_with(
    script: &str,
    fields: &[(String, String)],
    read: &dyn Fn(&Path) -> Option<String>,
) -> Result<Converted, Refused> {
    let mut draft = Draft::new(fields)?;
    let script = sources::examples::read_script(script, read, &mut draft)?;
    draft.finish(&header(&format!("a command line of {script}")))
}

/// Writes a job file of values by field path, under a line that says where it comes from.
pub fn write(fields: &[(String, String)], header: &str) -> Result<Converted, Refused> {
    Draft::new(fields)?.finish(header)
}

/// Returns true for several JSON objects, one a line.
fn is_rows(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let mut is_object = || {
        let line = lines.next().filter(|line| line.trim_start().starts_with('{'));
        line.is_some_and(|line| serde_json::from_str::<Map<String, Value>>(line).is_ok())
    };
    is_object() && is_object()
}

/// Programs that run scripts, as commands begin.
const LAUNCHERS: [&str; 12] = [
    "python",
    "python3",
    "torchrun",
    "accelerate",
    "deepspeed",
    "neuron_parallel_compile",
    "trl",
    "axolotl",
    "llamafactory-cli",
    "xla_spawn.py",
    "mpirun",
    "srun",
];

/// Returns true for a script of a shell, a cell of a notebook with commands, or a command by itself.
fn is_script(text: &str) -> bool {
    let is_python = || text.lines().any(is_import);
    if text.starts_with("#!") {
        return !text.lines().next().unwrap_or_default().contains("python");
    }
    let is_command = |line: &str| {
        let line = line.trim_start().trim_start_matches(['!', '$', '%']).trim_start();
        let mut words = line.split_whitespace();
        let mut word =
            || words.by_ref().find(|word| assignment(word).is_none() && *word != "nohup");
        let first = word().unwrap_or_default();
        // `python:` is a key of YAML.
        LAUNCHERS.contains(&first) && word().is_some_and(|word| !word.starts_with([':', '=']))
    };
    text.lines().any(is_command)
        && !is_python()
        && !text.trim_start().starts_with('{')
        && !text.lines().any(is_section)
}

/// Returns true for a line of YAML that begins a section or a literal text, as none of a shell does.
fn is_section(line: &str) -> bool {
    let is_key = |key: &str| key.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    let line = line.trim_end();
    line.strip_suffix(':')
        .or_else(|| line.strip_suffix(": |"))
        .is_some_and(|key| !key.is_empty() && is_key(key))
}

fn is_import(line: &str) -> bool {
    line.starts_with("import ") || line.starts_with("from ") && line.contains(" import ")
}

/// Names a text that is a program in place of settings, and says what to do with it.
fn program(text: &str) -> Option<&'static str> {
    Some(match () {
        () if text.contains('\0') => {
            "is not text: training_args.bin is Python's own format, which is not read; write \
            training_args.to_json_string() to a file, and convert that"
        }
        () if text.lines().any(|line| is_import(line) && line.contains("sagemaker")) => {
            "is Python, which is not run: import HuggingFace from traind in place of sagemaker.huggingface there, and \
            the estimator submits the job (docs/python.md); or write its arguments to a file as JSON, and convert that \
            (docs/coming-from.md)"
        }
        () if text.lines().any(is_import) => {
            "is Python, which is not run: convert the command line that runs an example script, as `traind \
            convert -- python run_glue.py …`; for a script of your own, begin with `traind init MODEL DATA`, and for \
            one of sentence-transformers with docs/examples/embeddings.yaml or docs/examples/reranker.yaml"
        }
        () => return None,
    })
}

fn describe(error: &serde_saphyr::Error) -> String {
    match error.without_snippet() {
        serde_saphyr::Error::MultipleDocuments { .. } => {
            "has more than one YAML document; convert each by itself".to_owned()
        }
        other => {
            // The library's own advice is for programs.
            let text = other.to_string();
            let line = text.split(", set DuplicateKeyPolicy").next().unwrap_or_default();
            format!("is neither YAML nor JSON: {}", line.trim_start_matches("error: "))
        }
    }
}

fn tool_of(settings: &Map<String, Value>) -> Option<Tool> {
    let has_components = settings.values().any(|value| value.get("_component_").is_some());
    traind_job_file::tool_of(|key| settings.contains_key(key), has_components)
}

/// Whether settings have the sections of a job file.
fn is_job(settings: &Map<String, Value>) -> bool {
    settings.get("model").is_some_and(Value::is_object)
        && ["data", "train"].iter().any(|key| settings.get(*key).is_some_and(Value::is_object))
}

/// Names a file that has no settings of a training, and says what to do with it.
fn other_file(settings: &Map<String, Value>) -> Option<&'static str> {
    let has = |key: &str| settings.contains_key(key);
    let is_mapping = |key: &str| settings.get(key).is_some_and(Value::is_object);
    Some(match () {
        () if has("cells") && has("nbformat") => {
            "is a notebook, whose Python is not run: traind.HuggingFace takes an estimator's arguments there \
            (docs/python.md), and `traind convert` TrainingArguments as JSON"
        }
        () if has("peft_type") => {
            "is a config of adapters: put r, lora_alpha and target_modules into section peft, or name its folder in \
            peft.adapter_name_or_path"
        }
        () if has("model_type") && (has("architectures") || has("hidden_size")) => {
            "is a model's config.json, which says nothing about training; begin with `traind init MODEL DATA`"
        }
        () if has("zero_optimization") || has("train_micro_batch_size_per_gpu") => {
            "is DeepSpeed's file: convert the command line or the TrainingArguments that name it, or set parallel.fsdp"
        }
        () if has("model_name_or_path")
            && ["task_name", "train_file", "dataset_name", "max_seq_length"]
                .into_iter()
                .any(has) =>
        {
            "has the arguments of an example script: convert the command line that reads them, such as \
            `traind convert -- python run_glue.py FILE`"
        }
        () if has("trainer") && !has("train") && (has("model") || has("data")) => {
            "is a config of PyTorch Lightning or NeMo, whose classes are Python and are not converted; begin with \
            `traind init MODEL DATA`"
        }
        () if has("base_model") && has("params") && (has("task") || has("project_name")) => {
            "is AutoTrain's config, which is not converted; begin with `traind init MODEL DATA`, and put lr, \
            batch_size and epochs of params into train.learning_rate, train.per_device_train_batch_size and \
            train.num_train_epochs"
        }
        () if has("model_id_or_path") && has("seq_len") => {
            "is mistral-finetune's config, which is not converted; begin with `traind init MODEL DATA`, and put \
            optim.lr, batch_size and max_steps into train.learning_rate, train.per_device_train_batch_size and \
            train.max_steps"
        }
        () if has("checkpoint_dir") && has("data") && has("train") && !has("model") => {
            "is LitGPT's config, which is not converted; begin with `traind init MODEL DATA`, and put \
            train.micro_batch_size and train.epochs into train.per_device_train_batch_size and train.num_train_epochs"
        }
        () if has("apiVersion") && has("kind") => {
            "is a manifest of Kubernetes: convert the command of its container, as `traind convert -- python \
            run_glue.py …`; docs/hosts.md says how jobs run there"
        }
        () if has("run") && (has("resources") || has("setup")) => {
            "is a task of SkyPilot: convert its command, as `traind convert -- python run_glue.py …`"
        }
        () if ["stages", "services", "entry_points"].iter().any(|key| is_mapping(key)) => {
            "has commands that another tool runs: convert the one that trains, as `traind convert -- python \
            run_glue.py …`"
        }
        () if has("log_history") => {
            "is a Trainer's state; training_args.json or the command line beside it has the settings"
        }
        () => return None,
    })
}

/// Why no source is taken.
fn unrecognized(settings: &Map<String, Value>) -> String {
    match tool_of(settings) {
        Some(Tool::Axolotl) if other_file(settings).is_some() => {
            other_file(settings).unwrap_or_default().to_owned()
        }
        Some(tool) => tool.advice().to_owned(),
        None if other_file(settings).is_none() && is_job(settings) => {
            "is a job file already; `traind submit` takes it".to_owned()
        }
        None => {
            let unknown = "has the keys of no tool that is known here; say which by --from: training-arguments, \
                axolotl, llama-factory, sagemaker, trl or command, and for the file of another tool begin with \
                `traind init MODEL DATA`";
            other_file(settings).unwrap_or(unknown).to_owned()
        }
    }
}

/// Hyperparameters that the scripts of notebooks have, and no tool's files.
const OF_NOTEBOOKS: [&str; 5] =
    ["epochs", "train_batch_size", "eval_batch_size", "model_name", "model_id"];

/// The tool that writes such keys.
fn recognize(settings: &Map<String, Value>) -> Option<Source> {
    match tool_of(settings) {
        Some(Tool::Axolotl) if other_file(settings).is_some() => return None,
        Some(Tool::Axolotl) => return Some(Source::Axolotl),
        Some(Tool::LlamaFactory) => return Some(Source::LlamaFactory),
        Some(Tool::SageMaker) => return Some(Source::SageMaker),
        Some(Tool::Trl) => return Some(Source::Trl),
        Some(Tool::Accelerate | Tool::Torchtune) => return None,
        None if is_job(settings) || other_file(settings).is_some() => return None,
        None if OF_NOTEBOOKS.iter().any(|key| settings.contains_key(*key)) => {
            return Some(Source::SageMaker);
        }
        None => {}
    }
    let is_argument = |key: &String| {
        traind_job_file::training_argument(key).is_some() || rule::is_field(&format!("train.{key}"))
    };
    settings.keys().any(is_argument).then_some(Source::TrainingArguments)
}

fn header(source: &str) -> String {
    format!("Made of {source} by `traind convert`.")
}

fn title(source: Source) -> &'static str {
    match source {
        Source::TrainingArguments => "TrainingArguments",
        Source::Axolotl => "axolotl's settings",
        Source::LlamaFactory => "LLaMA-Factory's settings",
        Source::SageMaker => "SageMaker's hyperparameters",
        Source::Trl => "a config of TRL",
    }
}
