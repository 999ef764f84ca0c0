//! Options of commands that embed texts by a job, and the part of the job that they make.

use std::num::NonZeroU32;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use traind_job_file::JobFile;
use traind_wording::{counted, counted_as};

use super::Global;
use super::free_cores::with_free_cores;
use super::runner_command::{Interrupts, answer_of};
use super::scratch::Scratch;
use super::submit::working_directory;
use crate::host::Host;
use crate::host::discovery::{DevicePaths, NeuronPaths};
use crate::host::plugins::plugin;
use crate::paths;

/// The options by which settings of the job are given.
const OPTIONS: [(&str, &str); 9] = [
    ("model.name_or_path", "the model"),
    ("data.max_length", "--max-length"),
    ("data.prompts", "the prompt"),
    ("data.texts", "--text"),
    ("data.test", "the file"),
    ("embedding.pooling_mode", "--pooling"),
    ("resources.platform", "--platform"),
    ("resources.cores", "--cores"),
    ("train.per_device_eval_batch_size", "--batch-size"),
];

#[derive(clap::Args)]
pub(super) struct Embedder {
    /// Texts that a core embeds at once
    #[arg(long, value_name = "ROWS", default_value_t = 32)]
    batch_size: u32,
    /// Kind of cores: cpu, cuda or neuron
    #[arg(long, default_value = "cpu")]
    platform: String,
    /// Number of cores, at most those of this host [default: all of the host's CPUs, else 1]
    #[arg(long, value_name = "COUNT")]
    cores: Option<NonZeroU32>,
}

/// The runner's program that is asked, the daemon that may have its cores, and the folder of its runs.
pub(super) struct Asked<'a> {
    pub global: &'a Global,
    pub program: &'a Path,
    pub scratch: &'a Scratch,
}

impl Embedder {
    fn core_count(&self) -> u32 {
        let all = || std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let default = || if self.platform == "cpu" { all() } else { 1 };
        self.cores.map_or_else(default, NonZeroU32::get)
    }

    /// Runs a command of the runner's with a request, on cores that nobody else has. Its runs are in `scratch`.
    pub(super) async fn answer_of<T: DeserializeOwned>(
        &self,
        Asked { global, program, scratch }: Asked<'_>,
        command: &str,
        request: &impl Serialize,
        interrupts: &mut Interrupts,
    ) -> anyhow::Result<T> {
        if self.platform != "neuron" {
            return answer_of(Command::new(program), command, request, interrupts).await;
        }
        with_free_cores(global, self.core_count(), interrupts, async |cores, interrupts| {
            let mut runner = Command::new(program);
            // Flags of another platform would abort the plugin.
            runner.env_remove("XLA_FLAGS").envs(cores);
            scratch.clear()?;
            answer_of(runner, command, request, interrupts).await
        })
        .await
    }

    /// A job that embeds `data` with a model and trains nothing.
    pub(super) fn job(&self, name: &str, model: &str, data: Value) -> Value {
        json!({
            "name": name,
            "model": { "name_or_path": model, "task": "embedding" },
            "data": data,
            "train": {
                "do_train": false,
                "do_predict": true,
                "prediction_loss_only": true,
                "per_device_eval_batch_size": self.batch_size,
            },
            "resources": {
                "platform": self.platform,
                "cores": self.core_count(),
            },
        })
    }

    /// Fails where the plugin of the platform is not installed.
    pub(super) fn check_plugin(&self) -> anyhow::Result<()> {
        let plugin = plugin(&self.platform)?;
        let cache_dir = paths::cache_dir().context("no cache folder: HOME is not set")?;
        let is_installed = plugin.find(&cache_dir).is_some();
        let platform = &self.platform;
        ensure!(is_installed, "the {platform} plugin is not installed: {}", plugin.instructions());
        Ok(())
    }

    /// Fails for cores that this host lacks, and for settings of a job that its file could not have.
    pub(super) fn check(&self, job: &Value, folder: &Path) -> anyhow::Result<()> {
        check_cores(&self.platform, self.cores)?;
        let mut job = job.clone();
        job["output_dir"] = json!(folder);
        let base_dir = working_directory()?;
        let parsed = JobFile::parse(&job.to_string(), Path::new(&base_dir));
        let Err(violations) = parsed else { return Ok(()) };
        let lines = violations.iter().map(|it| match it.field.as_str() {
            "" => it.description.clone(),
            field => format!("{field}: {}", it.description),
        });
        bail!("{}", of_options(&lines.collect::<Vec<_>>().join("; ")))
    }
}

/// Fails for a platform that is not known or without cores here, and for more cores than the host has. Where the driver
/// does not report any, the number that is given is taken on trust.
pub(in crate::cli) fn check_cores(platform: &str, cores: Option<NonZeroU32>) -> anyhow::Result<()> {
    plugin(platform)?;
    let paths = DevicePaths { neuron: NeuronPaths::of_command(), ..DevicePaths::default() };
    let host = Host::new(platform, None, &paths);
    let host = match (host, cores) {
        (Err(_), Some(_)) => return Ok(()),
        (host, _) => host?,
    };
    let (found, wanted) = (host.core_count(), cores.map_or(1, NonZeroU32::get));
    ensure!(
        wanted <= found,
        "--cores {wanted}: this host has {} of the platform {platform}",
        counted(found, "core")
    );
    match host.core_counts() {
        Some(counts) if !counts.contains(&wanted) => {
            let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
            let numbers = counted_as(counts.len(), "number", "numbers");
            bail!(
                "--cores {wanted}: a job may have one of {numbers} of cores of a host: {}",
                counts.join(", ")
            )
        }
        _ => Ok(()),
    }
}

/// A message about the job with the options that its settings are given by.
pub(super) fn of_options(message: &str) -> String {
    let message =
        message.replace(" of the job file names ", " is ").replace(" of the job file", "");
    OPTIONS.iter().fold(message, |message, (field, option)| message.replace(field, option))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn embedder(platform: &str, cores: u32) -> Embedder {
        Embedder { batch_size: 32, platform: platform.to_owned(), cores: NonZeroU32::new(cores) }
    }

    fn check(embedder: &Embedder, data: Value, expect: Option<&str>) {
        let mut job = embedder.job("embed", "./model", data);
        job["embedding"] = json!({});
        let found = embedder.check(&job, Path::new("out")).err().map(|error| error.to_string());
        match (&found, expect) {
            (Some(found), Some(expect)) => assert!(found.contains(expect), "{found}"),
            _ => assert_eq!(found.as_deref(), expect),
        }
    }

    #[test]
    fn options_beyond_the_host_are_refused_before_anything_runs() {
        let data = || json!({ "test": "a.csv" });
        check(&embedder("cpu", 0), data(), None);
        check(&embedder("cpu", 1), data(), None);
        check(&embedder("cpu", 1 << 16), data(), Some("--cores 65536: this host has "));
        check(
            &embedder("tpu", 1),
            data(),
            Some("unknown platform \"tpu\"; known: cpu, cuda, neuron"),
        );
    }

    #[test]
    fn messages_are_about_options() {
        let too_short = json!({ "test": "a.csv", "max_length": 0 });
        check(&embedder("cpu", 1), too_short, Some("--max-length: "));
        check(
            &Embedder { batch_size: 0, ..embedder("cpu", 1) },
            json!({ "test": "a.csv" }),
            Some("--batch-size: "),
        );
        let message = "data.texts of the job file names \"a\": rows have one";
        assert_eq!(of_options(message), "--text is \"a\": rows have one");
    }
}
