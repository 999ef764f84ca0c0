//! `traind generate`: runs the runner on this host, without a daemon, or asks the daemon for texts of a job's model.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Map, Value};
use traind_job_file::commands::{GenerateRequest, GenerateSource, GeneratedText, GeneratedTexts};
use traind_proto::v1;
use traind_wording::counted;

use super::Global;
use super::connect::client;
use super::exit::Exit;
use super::finite::finite;
use super::free_cores::with_free_cores;
use super::runner_command::{Interrupts, answer_of};
use super::serve::runner_beside_this_program;
use crate::host::plugins::plugin;
use crate::interfaces::text::printable;
use crate::jobs::supervisor::environment::neuron_standalone_environment;
use crate::paths;

/// Generate text with a model folder or a job's model
#[derive(clap::Args)]
pub(crate) struct Generate {
    /// A Hugging Face model folder, such as a job's output folder; with --job, the id of a job, a prefix of it, or its
    /// name
    model: PathBuf,
    /// Prompts to continue, or inputs of an encoder-decoder model
    #[arg(required = true)]
    prompt: Vec<String>,
    /// Have the daemon generate with a job's newest checkpoint while it trains, or with its model once it has completed
    #[arg(long, conflicts_with_all = ["platform", "cache_dir", "runner"])]
    job: bool,
    /// Generate with the job's checkpoint of this step
    #[arg(long, value_name = "STEP", requires = "job", value_parser = clap::value_parser!(u64).range(1..))]
    at: Option<u64>,
    /// Treat each prompt as a user message in the model's chat template
    #[arg(long)]
    chat: bool,
    /// Maximum number of tokens to generate per prompt [default: the model's, or 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_new_tokens: Option<u32>,
    /// Number of beams in beam search; 1 turns it off [default: the model's, or 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    num_beams: Option<u32>,
    #[command(flatten)]
    search: Search,
    /// Sample tokens, with scores divided by this temperature
    #[arg(long, value_name = "X", value_parser = finite::<f64>)]
    temperature: Option<f64>,
    /// Sample from the N most likely tokens; 0 for all [default: 50 when sampling]
    #[arg(long, value_name = "N")]
    top_k: Option<u32>,
    /// Sample from the most likely tokens whose probabilities add up to this
    #[arg(long, value_name = "X", value_parser = finite::<f64>)]
    top_p: Option<f64>,
    /// Seed for sampling
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Platform of the core to run on: cpu, cuda or neuron
    #[arg(long, default_value = "cpu")]
    platform: String,
    /// Folder of plugins and compiled programs [default: $TRAIND_CACHE_DIR or ~/.cache/traind]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Path of the runner's program [default: traind-runner next to this program]
    #[arg(long, value_name = "PATH")]
    runner: Option<PathBuf>,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
}

/// Settings of the search for a text, which default to the model's.
#[derive(clap::Args, Serialize)]
#[command(next_help_heading = "Search")]
struct Search {
    /// Divide a beam's score by its length to this power; above 0, long texts are preferred
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = finite::<f64>)]
    length_penalty: Option<f64>,
    /// End of a beam search: true, when there are as many complete texts as beams; false, when a better one is
    /// unlikely; never, when none is possible
    #[arg(long, value_name = "WHEN", value_parser = early_stopping)]
    early_stopping: Option<Value>,
    /// Allow no sequence of N tokens twice; 0 allows all
    #[arg(long, value_name = "N")]
    no_repeat_ngram_size: Option<u32>,
    /// Lower the scores of tokens that occurred, by this factor
    #[arg(long, value_name = "X", value_parser = finite::<f64>)]
    repetition_penalty: Option<f64>,
    /// Minimum number of tokens to generate per prompt
    #[arg(long, value_name = "N")]
    min_new_tokens: Option<u32>,
}

fn early_stopping(value: &str) -> Result<Value, String> {
    match value {
        "true" | "false" => Ok(Value::Bool(value == "true")),
        "never" => Ok(Value::from(value)),
        _ => Err("expected true, false or never".to_owned()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

impl Generate {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        let texts = match self.job {
            true => self.of_job(&global).await?,
            false => self.of_folder(&global).await?,
        };
        self.output.print(&texts)?;
        Ok(Exit::Done)
    }

    /// Asks the daemon, and names the checkpoint on standard error.
    async fn of_job(&self, global: &Global) -> anyhow::Result<Vec<GeneratedText>> {
        let settings = self.settings().into_iter();
        let request = v1::GenerateTextsRequest {
            job_id: self.model.display().to_string(),
            step: self.at.unwrap_or_default(),
            prompts: self.prompt.clone(),
            settings: settings.map(|(name, value)| (name, value.to_string())).collect(),
            seed: self.seed,
            chat: self.chat,
        };
        let jobs = client::jobs(global).await?;
        let generate = || {
            let (mut jobs, request) = (jobs.clone(), request.clone());
            async move { jobs.generate_texts(request).await }
        };
        let generated = client::retry(generate).await.map_err(|status| {
            let said = || anyhow::Error::msg(status.message().to_owned());
            let about = self.about(said());
            // Others have details, which the command's end prints.
            if about.to_string() == status.message() { status.into() } else { about }
        })?;
        generated.warnings.iter().for_each(|it| eprintln!("warning: {}", printable(it)));
        eprintln!("after {}:", counted(generated.step, "step"));
        let texts = generated.texts.into_iter();
        Ok(texts
            .map(|v1::GeneratedText { prompt, text, tokens }| GeneratedText {
                prompt,
                text,
                tokens,
            })
            .collect())
    }

    async fn of_folder(&self, global: &Global) -> anyhow::Result<Vec<GeneratedText>> {
        let cache_dir = self.cache_dir.clone().or_else(paths::cache_dir);
        let cache_dir = cache_dir.context("no cache folder: HOME is not set; set --cache-dir")?;
        let plugin = plugin(&self.platform)?;
        let library = plugin.find(&cache_dir).with_context(|| {
            format!("the {} plugin is not installed: {}", self.platform, plugin.instructions())
        })?;
        ensure!(self.model.is_dir(), "there is no folder {}", self.model.display());
        let [model, library, cache_dir] =
            [&self.model, &library, &cache_dir].map(std::path::absolute);
        let (model, library, cache_dir) = (model?, library?, cache_dir?);
        let request = GenerateRequest {
            source: GenerateSource::Model(model),
            prompts: self.prompt.clone(),
            chat: self.chat,
            settings: self.settings(),
            seed: self.seed,
            platform: self.platform.clone(),
            plugin: library,
            cache_dir,
        };
        let runner = self.runner.clone().map_or_else(runner_beside_this_program, Ok)?;
        let runner = std::path::absolute(runner)?;
        let mut interrupts = Interrupts::watch()?;
        let answer = match self.platform.as_str() {
            "neuron" => self.on_neuron_cores(global, &runner, &request, &mut interrupts).await,
            _ => answer_of(Command::new(runner), "generate", &request, &mut interrupts).await,
        };
        let GeneratedTexts { texts, warnings, .. } = answer.map_err(|error| self.about(error))?;
        warnings.iter().for_each(|warning| eprintln!("warning: {}", printable(warning)));
        Ok(texts)
    }

    /// Generates on a core that nobody else has.
    async fn on_neuron_cores(
        &self,
        global: &Global,
        runner: &Path,
        request: &GenerateRequest,
        interrupts: &mut Interrupts,
    ) -> anyhow::Result<GeneratedTexts> {
        with_free_cores(global, 1, interrupts, async |cores, interrupts| {
            let mut command = Command::new(runner);
            command.envs(neuron_standalone_environment(&request.cache_dir, self.seed)).envs(cores);
            let _scratch = compiler_folder(&mut command)?;
            answer_of(command, "generate", request, interrupts).await
        })
        .await
    }

    /// An error about a setting that an option gives names the option in place of the model's file.
    fn about(&self, error: anyhow::Error) -> anyhow::Error {
        let message = error.to_string();
        let of_key = |key: &String| {
            let (_, problem) = message.split_once(&format!(".json: {key}: "))?;
            Some(format!("{}: {problem}", option(key)))
        };
        let about = self.settings().keys().find_map(of_key);
        // A job has this key, and a command has none.
        let of_file = || message.strip_suffix(" or model.config_overrides").map(str::to_owned);
        about.or_else(of_file).map_or(error, anyhow::Error::msg)
    }

    /// The settings that are given, by the names of `generation_config.json`.
    fn settings(&self) -> Map<String, Value> {
        let draws = [self.temperature.is_some(), self.top_k.is_some(), self.top_p.is_some()];
        let do_sample = match (draws.contains(&true), self.num_beams) {
            (true, _) => Some(true),
            // Beams are chosen, whatever the model's own settings are.
            (false, Some(2..)) => Some(false),
            (false, _) => None,
        };
        let given = [
            ("max_new_tokens", self.max_new_tokens.map(Value::from)),
            ("num_beams", self.num_beams.map(Value::from)),
            ("temperature", self.temperature.map(Value::from)),
            ("top_k", self.top_k.map(Value::from)),
            ("top_p", self.top_p.map(Value::from)),
            ("do_sample", do_sample.map(Value::from)),
        ];
        let given = given.into_iter();
        let given = given.filter_map(|(name, value)| Some((name.to_owned(), value?)));
        given.chain(self.search.given()).collect()
    }
}

/// The options that give a setting.
fn option(setting: &str) -> String {
    match setting {
        "do_sample" => "--temperature, --top-k, --top-p".to_owned(),
        setting => format!("--{}", setting.replace('_', "-")),
    }
}

/// Gives the runner a folder of its own, removed at the end, for the files of Neuron's compiler: it leaves its log and
/// what it works on in the current directory, and the plugin in that for temporary files.
fn compiler_folder(runner: &mut Command) -> anyhow::Result<tempfile::TempDir> {
    let made = tempfile::Builder::new().prefix("traind-generate-").tempdir();
    let folder = made.context("make a folder for the compiler")?;
    // Flags of another platform would abort the plugin.
    runner.current_dir(folder.path()).env("TMPDIR", folder.path()).env_remove("XLA_FLAGS");
    Ok(folder)
}

impl Search {
    /// The settings that are given, by the names of `generation_config.json`.
    fn given(&self) -> Map<String, Value> {
        let Ok(Value::Object(mut settings)) = serde_json::to_value(self) else { return Map::new() };
        settings.retain(|_, value| !value.is_null());
        settings
    }
}

impl Format {
    fn print(self, texts: &[GeneratedText]) -> anyhow::Result<()> {
        match self {
            Format::Json => println!("{}", serde_json::to_string_pretty(texts)?),
            Format::Text => texts.iter().for_each(|it| println!("{}", printable(&it.text))),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        generate: Generate,
    }

    #[test]
    fn errors_about_settings_name_the_options_that_give_them() {
        let check = |options: &[&str], message: &str, expect: &str| {
            let words = [&["traind", "model", "prompt"], options].concat();
            let Program { generate } = Program::try_parse_from(words).unwrap();
            assert_eq!(generate.about(anyhow::Error::msg(message.to_owned())).to_string(), expect);
        };
        let problem = "expected a number above 0, found -1.0";
        let message = format!("/m/generation_config.json: temperature: {problem}");
        check(&["--temperature=-1"], &message, &format!("--temperature: {problem}"));
        let length = "/m/config.json: max_new_tokens: texts of 503 tokens";
        check(&["--max-new-tokens", "500"], length, "--max-new-tokens: texts of 503 tokens");
        // The file's own values are the file's.
        check(&["--top-k", "3"], &message, &message);
        let beams = "/m/config.json: do_sample: cannot be true with num_beams above 1";
        let expect = "--temperature, --top-k, --top-p: cannot be true with num_beams above 1";
        check(&["--top-k", "3", "--num-beams", "2"], beams, expect);
    }
}
