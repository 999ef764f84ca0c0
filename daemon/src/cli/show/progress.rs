//! Progress of a job: lines, with a bar below them on a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use traind_proto::v1::cores_client::CoresClient;
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Event, Job, JobState, Step, WatchCoresRequest};

use crate::cli::connect::client::Connection;
use crate::interfaces::text::events::{describe, metrics};
use crate::interfaces::text::{duration, indented, number, one_line, state};

const TICK: Duration = Duration::from_millis(120);
/// How often the bar is updated.
const PERIOD_MS: u32 = 500;
const WAITING: &str = "{spinner} {msg}";
const TRAINING: &str = "{bar:30} {pos}/{len} {msg}";

pub(crate) struct Progress {
    /// `None` if standard error is not a terminal.
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            bar.set_style(style(WAITING));
            bar.enable_steady_tick(TICK);
            bar
        });
        Progress { bar }
    }

    /// Updates the bar between logged steps. Stops when the daemon is away; events still update the bar
    /// when it returns.
    pub(crate) async fn follow_steps(
        bar: ProgressBar,
        mut cores: CoresClient<Connection>,
        id: String,
    ) {
        let request = WatchCoresRequest { period_ms: PERIOD_MS, ..Default::default() };
        let Ok(readings) = cores.watch_cores(request).await else { return };
        let mut readings = readings.into_inner();
        while let Ok(Some(reading)) = readings.message().await {
            let usages = reading.cores.iter().filter(|core| core.job_id == id);
            let usage = usages.filter_map(|core| core.usage.as_ref()).next();
            if let Some(usage) = usage.filter(|usage| usage.max_steps > 0) {
                advance(&bar, usage.step.max(bar.position()), usage.max_steps);
            }
        }
    }

    pub(crate) fn bar(&self) -> Option<&ProgressBar> {
        self.bar.as_ref()
    }

    pub(crate) fn show(&self, event: &Event) {
        match (&event.kind, &self.bar) {
            // The job's end follows and contains the same.
            (Some(Kind::Finished(_)), _) => {}
            (Some(Kind::Step(step)), Some(bar)) => {
                advance(bar, step.step, step.max_steps);
                bar.set_message(message(step));
            }
            (Some(Kind::StateChanged(changed)), Some(bar)) if !is_training(bar) => {
                bar.set_message(state(changed.to()));
            }
            (Some(Kind::Waiting(waiting)), Some(bar)) => bar.set_message(waiting.reason.clone()),
            (_, Some(bar)) => bar.suspend(|| eprintln!("{}", describe(event))),
            (_, None) => eprintln!("{}", describe(event)),
        }
    }

    /// Finishes the bar; later output is printed below it.
    pub(crate) fn close(&self) {
        if let Some(bar) = &self.bar {
            if is_training(bar) { bar.abandon() } else { bar.finish_and_clear() }
        }
    }

    /// Prints how the job ended, with its metrics and its output folder.
    pub(crate) fn print_result(&self, job: &Job) {
        eprintln!("job {} {}", job.id, state(job.state()));
        if !job.metrics.is_empty() {
            eprintln!("{}", one_line(&metrics(&job.metrics)));
        }
        match job.state() {
            JobState::Completed => eprintln!("output: {}", one_line(&job.output_dir)),
            JobState::Failed => {
                if let Some(failure) = &job.failure {
                    let text = format!("{}: {}", failure.reason, failure.message);
                    eprintln!("{}", indented(&text));
                }
            }
            _ => {}
        }
    }
}

/// Whether the job trains: the bar has a length from the first step on.
fn is_training(bar: &ProgressBar) -> bool {
    bar.length().is_some()
}

fn advance(bar: &ProgressBar, step: u64, max_steps: u64) {
    if !is_training(bar) {
        bar.set_style(style(TRAINING));
        bar.set_message("");
    }
    bar.set_length(max_steps);
    bar.set_position(step);
}

fn message(step: &Step) -> String {
    format!(
        "loss {} lr {} {:.1} samples/s eta {}",
        number(step.loss),
        number(step.learning_rate),
        step.samples_per_second,
        duration(step.eta_seconds)
    )
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants; an invalid one would fall back to a plain bar.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
