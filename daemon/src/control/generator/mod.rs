//! Texts of a job's model, while the job trains or later.
//!
//! A process with the rights of the job's user reads the checkpoint and generates: see `traind generator` for its
//! limits. It uses the host's processor, whatever the platform of the job is, and one runs at a time. Its processor
//! time counts in the fair share of the user who asked.

mod line;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use traind_job_file::JobFile;
use traind_job_file::commands::{
    GenerateAnswer, GenerateJob, GenerateRequest, GenerateSource, GeneratedText, GeneratedTexts,
};
use traind_proto::{reasons, v1};

use super::charge::Charge;
use super::error::{Error, GenerationError};
use crate::host::meter::Meter;
use crate::host::pipes::{beginning, end};
use crate::host::plugins::plugin;
use crate::jobs::run_dir::RunDir;
use crate::jobs::state::JobState;
use crate::jobs::store::Job;
use crate::jobs::supervisor::environment::planner_environment;
use crate::settings::Settings;
use line::Line;

/// The time for reading, compiling and generating.
pub(crate) const GENERATION_TIMEOUT: Duration = Duration::from_secs(300);
/// Every host has a plugin for it.
const PLATFORM: &str = "cpu";
const PROMPTS_MAX: usize = 32;
const PROMPT_BYTES_MAX: usize = 64 << 10;
/// Settings with an upper limit.
const SETTINGS_MAX: [(&str, u64); 2] = [("max_new_tokens", 1024), ("num_beams", 16)];
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// The last bytes that a process wrote about itself.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Runs generators, one at a time.
#[derive(Debug, Default)]
pub(crate) struct Generator {
    line: Line,
}

impl Generator {
    /// Generates texts with the model of `job`, for the user of `charge`. Dropping the future ends the process.
    pub(crate) async fn generate(
        &self,
        settings: &Settings,
        job: &Job,
        asked: &v1::GenerateTextsRequest,
        charge: Charge,
    ) -> Result<v1::GeneratedTexts, Error> {
        let resolved: JobFile = serde_json::from_str(&job.resolved).map_err(Error::Resolved)?;
        if !resolved.model.task.generates_texts() {
            return Err(GenerationError::Task(resolved.model.task).into());
        }
        check_prompts(&asked.prompts)?;
        let known = plugin(PLATFORM).ok();
        let library = known.and_then(|plugin| plugin.find(&settings.cache_dir));
        let missing = || Error::Plugin {
            platform: PLATFORM.to_owned(),
            instructions: known.map_or_else(String::new, |plugin| plugin.instructions()),
        };
        let run_dir = RunDir::new(&settings.state_dir, &job.id);
        let request = GenerateRequest {
            source: GenerateSource::Job(Box::new(GenerateJob {
                id: job.id.clone(),
                job: resolved,
                run_dir: run_dir.path().to_owned(),
                completed: job.state == JobState::Completed,
                step: (asked.step > 0).then_some(asked.step),
            })),
            prompts: asked.prompts.clone(),
            chat: asked.chat,
            settings: parsed(asked)?,
            seed: asked.seed,
            platform: PLATFORM.to_owned(),
            plugin: library.ok_or_else(missing)?,
            cache_dir: settings.cache_dir_of(job.run_as),
        };
        let turn = self.line.enter(charge.user(), Instant::now());
        let _turn = turn.ok_or(Error::Busy { what: "requests for texts" })?;
        let run = run(settings, job, &request, &run_dir, charge.meter());
        let ended = tokio::time::timeout(GENERATION_TIMEOUT, run).await;
        Ok(ended.unwrap_or(Err(GenerationError::Timeout(GENERATION_TIMEOUT)))?)
    }
}

fn check_prompts(prompts: &[String]) -> Result<(), Error> {
    let refuse = |description| Err(Error::Request { field: "prompts", description });
    if !(1..=PROMPTS_MAX).contains(&prompts.len()) {
        return refuse(format!("there are {}; must be 1 to {PROMPTS_MAX}", prompts.len()));
    }
    match prompts.iter().map(String::len).find(|length| *length > PROMPT_BYTES_MAX) {
        Some(length) => {
            refuse(format!("one has {length} bytes; must be at most {PROMPT_BYTES_MAX}"))
        }
        None => Ok(()),
    }
}

/// The settings, whose values are JSON.
fn parsed(asked: &v1::GenerateTextsRequest) -> Result<Map<String, Value>, Error> {
    let refuse = |description| Error::Request { field: "settings", description };
    let mut settings = Map::new();
    for (name, text) in &asked.settings {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| refuse(format!("{name}: {text:?} is not JSON: {error}")))?;
        let limit = SETTINGS_MAX.iter().find(|(limited, _)| limited == name);
        if let Some((_, most)) = limit
            && value.as_u64().is_none_or(|value| value > *most)
        {
            return Err(refuse(format!("{name} is {text}; must be a number up to {most}")));
        }
        settings.insert(name.clone(), value);
    }
    Ok(settings)
}

async fn run(
    settings: &Settings,
    job: &Job,
    request: &GenerateRequest,
    run_dir: &RunDir,
    meter: &Meter,
) -> Result<v1::GeneratedTexts, GenerationError> {
    let mut child = spawn(settings, job, request, run_dir)?;
    // Dropped before the process is waited for, or killed: the kernel keeps its time until then.
    let metering = meter.of_process(child.id());
    let input = serde_json::to_vec(request).map_err(io::Error::other)?;
    if let Some(mut pipe) = child.stdin.take() {
        // A process that does not read its input says why.
        let _ = pipe.write_all(&input).await;
    }
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (out, err) = tokio::join!(beginning(out, ANSWER_BYTES_MAX), end(err, MESSAGE_BYTES_MAX));
    drop(metering);
    let status = child.wait().await?;
    match serde_json::from_slice(&out?) {
        Ok(GenerateAnswer::Texts(answer)) if status.success() => Ok(generated(answer)),
        Ok(GenerateAnswer::Refusal(refusal)) => Err(GenerationError::Refused {
            reason: known_reason(&refusal.reason),
            message: refusal.message,
        }),
        _ => Err(died(status, &err?)),
    }
}

fn generated(answer: GeneratedTexts) -> v1::GeneratedTexts {
    let GeneratedTexts { step, texts, warnings } = answer;
    v1::GeneratedTexts { step, texts: texts.into_iter().map(message).collect(), warnings }
}

fn message(text: GeneratedText) -> v1::GeneratedText {
    let GeneratedText { prompt, text, tokens } = text;
    v1::GeneratedText { prompt, text, tokens }
}

/// The error of a process that gave no answer.
fn died(status: ExitStatus, messages: &[u8]) -> GenerationError {
    let messages = String::from_utf8_lossy(messages);
    match messages.lines().last().filter(|_| status.code().is_some()) {
        Some(message) => GenerationError::Refused {
            reason: reasons::GENERATION_FAILED,
            message: message.to_owned(),
        },
        None => GenerationError::Died(status),
    }
}

/// One of the reasons that there are: the process has the rights of a user.
fn known_reason(reason: &str) -> &'static str {
    let known = reasons::ALL.iter().find(|(known, _)| *known == reason);
    known.map_or(reasons::GENERATION_FAILED, |(known, _)| *known)
}

fn spawn(
    settings: &Settings,
    job: &Job,
    request: &GenerateRequest,
    run_dir: &RunDir,
) -> io::Result<Child> {
    let option = |name: &str, value: PathBuf| {
        let mut option = OsString::from(format!("--{name}="));
        option.push(value);
        option
    };
    let readable = [run_dir.path().to_owned(), request.plugin.clone()];
    let environment = planner_environment(std::env::vars_os(), false, job.run_as.is_some());
    Command::new("/proc/self/exe")
        .arg("generator")
        .args(settings.roots.paths().map(|path| option("allow-root", path.to_owned())))
        .args(readable.into_iter().map(|path| option("readable", path)))
        .arg(option("cache-dir", request.cache_dir.clone()))
        .args(job.run_as.map(|account| format!("--run-as={account}")))
        .args(settings.memory_per_job.map(|bytes| format!("--memory={bytes}")))
        .arg(format!("--seconds={}", GENERATION_TIMEOUT.as_secs()))
        .args(settings.test_keep_priority.then_some("--keep-priority"))
        .arg(&settings.runner)
        .env_clear()
        .envs(environment)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(name: &str, value: &str) -> v1::GenerateTextsRequest {
        let settings = [(name.to_owned(), value.to_owned())].into();
        v1::GenerateTextsRequest { settings, ..Default::default() }
    }

    #[test]
    fn settings_are_json_within_limits() {
        let read = |name, value| parsed(&asked(name, value)).map_err(|error| error.to_string());
        assert_eq!(read("max_new_tokens", "1024").unwrap()["max_new_tokens"], 1024);
        assert_eq!(read("do_sample", "true").unwrap()["do_sample"], true);
        let expect = "settings: max_new_tokens is 1025; must be a number up to 1024";
        assert_eq!(read("max_new_tokens", "1025").unwrap_err(), expect);
        assert!(read("num_beams", "-1").unwrap_err().contains("up to 16"));
        assert!(read("top_p", "x").unwrap_err().contains("is not JSON"));
    }

    #[test]
    fn warnings_of_the_generator_are_handed_on() {
        let text = GeneratedText { prompt: "a".to_owned(), text: "b".to_owned(), tokens: vec![1] };
        let warnings = vec!["min_length is above max_length".to_owned()];
        let answer = GeneratedTexts { step: 3, texts: vec![text], warnings: warnings.clone() };
        let found = generated(answer);
        assert_eq!((found.step, found.texts.len(), found.warnings), (3, 1, warnings));
    }

    #[test]
    fn the_number_and_length_of_prompts_are_limited() {
        let check = |count, length| check_prompts(&vec!["x".repeat(length); count]).is_ok();
        assert!(check(1, 0) && check(PROMPTS_MAX, PROMPT_BYTES_MAX));
        assert!(!check(0, 0) && !check(PROMPTS_MAX + 1, 1) && !check(1, PROMPT_BYTES_MAX + 1));
    }
}
