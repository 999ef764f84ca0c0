//! A job's progress: a bar with lines above it on a terminal, else lines alone.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Event, Job, JobState, Step};

use super::event_text::{describe, metrics};
use super::output::{duration, number, state};

const TICK: Duration = Duration::from_millis(120);
const WAITING: &str = "{spinner} {msg}";
const TRAINING: &str = "{bar:30} {pos}/{len} {msg}";

pub(crate) struct Progress {
    /// Absent where standard error is no terminal.
    bar: Option<ProgressBar>,
    training: bool,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            bar.set_style(style(WAITING));
            bar.enable_steady_tick(TICK);
            bar
        });
        Progress { bar, training: false }
    }

    pub(crate) fn show(&mut self, event: &Event) {
        match (&event.kind, &self.bar) {
            // Followed by the job's end, which says the same.
            (Some(Kind::Finished(_)), _) => {}
            (Some(Kind::Step(step)), Some(bar)) => {
                if !self.training {
                    bar.set_style(style(TRAINING));
                    self.training = true;
                }
                bar.set_length(step.max_steps);
                bar.set_position(step.step);
                bar.set_message(message(step));
            }
            (Some(Kind::StateChanged(changed)), Some(bar)) if !self.training => {
                bar.set_message(state(changed.to()));
            }
            (Some(Kind::Waiting(waiting)), Some(bar)) => bar.set_message(waiting.reason.clone()),
            (_, Some(bar)) => bar.suspend(|| eprintln!("{}", describe(event))),
            (_, None) => eprintln!("{}", describe(event)),
        }
    }

    /// Leaves the bar as it stands; what follows goes below it.
    pub(crate) fn close(&self) {
        if let Some(bar) = &self.bar {
            if self.training { bar.abandon() } else { bar.finish_and_clear() }
        }
    }

    /// How the job ended, with its figures and its folder.
    pub(crate) fn conclude(&self, job: &Job) {
        eprintln!("job {} {}", job.id, state(job.state()));
        if !job.metrics.is_empty() {
            eprintln!("{}", metrics(&job.metrics));
        }
        match job.state() {
            JobState::Completed => eprintln!("output: {}", job.output_dir),
            JobState::Failed => {
                if let Some(failure) = &job.failure {
                    eprintln!("{}: {}", failure.reason, failure.message);
                }
            }
            _ => {}
        }
    }
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
    // The templates are this file's own; a broken one falls back to a plain bar.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
