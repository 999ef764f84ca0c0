//! `traind get`.

use anyhow::Context;
use clap::ValueEnum;
use traind_job_file::{cost, energy};
use traind_proto::v1;

use super::Global;
use super::connect::client;
use super::exit::Exit;
use super::show::job_view::JobView;
use super::show::split;
use crate::interfaces::text;

/// Show a job
#[derive(clap::Args)]
pub(crate) struct Get {
    /// The job's id, a prefix of it, or its name
    job: String,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Table,
    Json,
    Yaml,
}

impl Get {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        let jobs = client::jobs(&global).await?;
        let job = client::get_job(&jobs, &self.job).await?;
        match self.output {
            Format::Table => print_pairs(&job),
            Format::Json => {
                let text = serde_json::to_string_pretty(&JobView::from(job));
                println!("{}", text.context("print as JSON")?);
            }
            Format::Yaml => {
                let text = serde_saphyr::to_string(&JobView::from(job));
                print!("{}", text.context("print as YAML")?);
            }
        }
        Ok(Exit::Done)
    }
}

/// Prints the most important fields; the other formats have all of them.
fn print_pairs(job: &v1::Job) {
    let mut pairs = vec![
        ("id", job.id.clone()),
        ("name", job.name.clone()),
        ("owner", job.owner.clone()),
        ("state", text::state(job.state())),
        ("waiting", job.waiting_reason.clone()),
        ("reason", job.cancel_reason.clone()),
        ("queue", queue(job)),
        ("submitted", ago(job.create_time.as_ref())),
        ("started", ago(job.start_time.as_ref())),
        ("ended", ago(job.end_time.as_ref())),
        ("cores", text::cores(job)),
        ("cluster", job.cluster_job.clone()),
        ("avoids", job.avoided_hosts.join(", ")),
        ("output", job.output_dir.clone()),
        ("parent", parent(job)),
        ("billed", billed(job)),
        ("energy", job.energy_joules.map(energy).unwrap_or_default()),
    ];
    if let Some(step) = &job.progress {
        pairs.push(("step", format!("{} of {}", step.step, step.max_steps)));
        pairs.push(("loss", text::number(step.loss)));
        pairs.push(("samples/s", text::number(step.samples_per_second)));
    }
    if let Some(failure) = &job.failure {
        pairs.push(("failure", format!("{}: {}", failure.reason, failure.message)));
    }
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        println!("{name:<10} {}", text::indented(value));
    }
    job.data.iter().for_each(split::print);
    let width = job.metrics.keys().map(String::len).max().unwrap_or_default();
    for (name, value) in &job.metrics {
        println!("{:<width$} {}", text::one_line(name), text::number(*value));
    }
}

/// The checkpoint of another job that it started with.
fn parent(job: &v1::Job) -> String {
    let parent = job.parent.as_ref();
    parent.map(|it| format!("{} at step {}", it.job_id, it.step)).unwrap_or_default()
}

/// "1h30m00s, which cost 4.50", once a run has ended.
fn billed(job: &v1::Job) -> String {
    if job.billed_seconds <= 0.0 {
        return String::new();
    }
    let time = text::duration(job.billed_seconds);
    match job.price_per_hour {
        Some(price) => {
            let paid = cost(price, job.billed_seconds);
            let full = job.on_demand_price_per_hour.map(|full| cost(full, job.billed_seconds));
            let saved = full.map(|full| format!(", {:.2} less than on demand", full - paid));
            format!("{time}, which cost {paid:.2}{}", saved.unwrap_or_default())
        }
        None => time,
    }
}

/// "2, starts in about 3m20s".
fn queue(job: &v1::Job) -> String {
    match (job.queue_position, text::until(job.estimated_start_time.as_ref())) {
        (0, _) => String::new(),
        (position, None) => position.to_string(),
        (position, Some(wait)) => format!("{position}, starts in about {wait}"),
    }
}

fn ago(time: Option<&prost_types::Timestamp>) -> String {
    time.map(|at| format!("{} ago ({at})", text::age(Some(at)))).unwrap_or_default()
}
