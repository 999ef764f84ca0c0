//! A job as `traind get` and the web page show it, with the wire's field names.

use std::collections::BTreeMap;

use prost_types::Timestamp;
use serde::Serialize;
use traind_job_file::cost;
use traind_proto::v1;

use crate::interfaces::text;

#[derive(Serialize)]
pub(crate) struct JobView {
    id: String,
    name: String,
    owner: String,
    state: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    waiting_reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    cancel_reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_position: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated_start_time: Option<String>,
    create_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_time: Option<String>,
    platform: String,
    engine: String,
    host_count: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    cluster_job: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    host_names: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    avoided_hosts: Vec<String>,
    core_count: u32,
    cores: Vec<u32>,
    output_dir: String,
    billed_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    energy_joules: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    price_per_hour: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_demand_price_per_hour: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<ParentView>,
    base_dir: String,
    attempt: u32,
    restarts: u32,
    last_sequence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<ProgressView>,
    metrics: BTreeMap<String, f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<FailureView>,
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    data: Vec<SplitView>,
    job_file: String,
}

#[derive(Serialize)]
struct ParentView {
    job_id: String,
    step: u64,
}

#[derive(Serialize)]
struct SplitView {
    split: String,
    rows: u64,
    files: u64,
    tokens: u64,
    truncated_rows: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lengths: Option<LengthsView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    classes: Vec<ClassView>,
}

#[derive(Serialize)]
struct LengthsView {
    mean: f64,
    p50: u32,
    p90: u32,
    p99: u32,
    max: u32,
}

/// A list and not a map, since labels are ordered and need not be unique.
#[derive(Serialize)]
struct ClassView {
    label: String,
    rows: u64,
}

#[derive(Serialize)]
struct ProgressView {
    step: u64,
    max_steps: u64,
    epoch: f64,
    loss: f64,
    learning_rate: f64,
    grad_norm: f64,
    samples_per_second: f64,
    tokens_per_second: f64,
    input_wait_share: f64,
    eta_seconds: f64,
}

#[derive(Serialize)]
struct FailureView {
    reason: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    row: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tensor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
}

impl From<v1::Job> for JobView {
    fn from(job: v1::Job) -> JobView {
        JobView {
            state: text::state(job.state()),
            id: job.id,
            name: job.name,
            owner: job.owner,
            waiting_reason: job.waiting_reason,
            cancel_reason: job.cancel_reason,
            queue_position: Some(job.queue_position).filter(|position| *position > 0),
            estimated_start_time: job.estimated_start_time.map(time),
            create_time: job.create_time.map(time),
            start_time: job.start_time.map(time),
            end_time: job.end_time.map(time),
            platform: job.platform,
            engine: job.engine,
            host_count: job.host_count,
            cluster_job: job.cluster_job,
            host_names: job.host_names,
            avoided_hosts: job.avoided_hosts,
            core_count: job.core_count,
            cores: job.cores,
            output_dir: job.output_dir,
            billed_seconds: job.billed_seconds,
            energy_joules: job.energy_joules,
            price_per_hour: job.price_per_hour,
            on_demand_price_per_hour: job.on_demand_price_per_hour,
            cost: job.price_per_hour.map(|price| cost(price, job.billed_seconds)),
            parent: job.parent.map(|it| ParentView { job_id: it.job_id, step: it.step }),
            base_dir: job.base_dir,
            attempt: job.attempt,
            restarts: job.restarts,
            last_sequence: job.last_sequence,
            progress: job.progress.map(ProgressView::from),
            metrics: job.metrics,
            failure: job.failure.map(FailureView::from),
            warnings: job.warnings.into_iter().map(|warning| warning.message).collect(),
            data: job.data.into_iter().map(SplitView::from).collect(),
            job_file: job.job_file,
        }
    }
}

impl From<v1::DataPrepared> for SplitView {
    fn from(data: v1::DataPrepared) -> SplitView {
        SplitView {
            split: data.split,
            rows: data.rows,
            files: data.files,
            tokens: data.tokens,
            truncated_rows: data.truncated_rows,
            lengths: data.lengths.map(LengthsView::from),
            classes: data
                .classes
                .into_iter()
                .map(|count| ClassView { label: count.label, rows: count.rows })
                .collect(),
        }
    }
}

impl From<v1::TokenLengths> for LengthsView {
    fn from(lengths: v1::TokenLengths) -> LengthsView {
        let v1::TokenLengths { mean, p50, p90, p99, max } = lengths;
        LengthsView { mean, p50, p90, p99, max }
    }
}

impl From<v1::Step> for ProgressView {
    fn from(step: v1::Step) -> ProgressView {
        ProgressView {
            step: step.step,
            max_steps: step.max_steps,
            epoch: step.epoch,
            loss: step.loss,
            learning_rate: step.learning_rate,
            grad_norm: step.grad_norm,
            samples_per_second: step.samples_per_second,
            tokens_per_second: step.tokens_per_second,
            input_wait_share: step.input_wait_share,
            eta_seconds: step.eta_seconds,
        }
    }
}

impl From<v1::Failure> for FailureView {
    fn from(failure: v1::Failure) -> FailureView {
        FailureView {
            reason: failure.reason,
            message: failure.message,
            field: failure.field,
            file: failure.file,
            row: failure.row,
            tensor: failure.tensor,
            step: failure.step,
            host: failure.host,
        }
    }
}

/// Formats a time as RFC 3339.
fn time(time: Timestamp) -> String {
    time.to_string()
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use prost_types::FileDescriptorSet;

    /// The messages of a job, each with the fields that the view leaves out.
    const MESSAGES: [(&str, &[&str]); 7] = [
        ("Job", &["request_id"]),
        ("Parent", &[]),
        ("Failure", &["transient"]),
        ("Step", &["time"]),
        ("DataPrepared", &["cache_hit", "seconds"]),
        ("TokenLengths", &[]),
        ("ClassCount", &[]),
    ];

    /// A field that is added to the wire is shown, or stands in the list.
    #[test]
    fn every_field_of_a_job_is_in_its_view() {
        let files = FileDescriptorSet::decode(traind_proto::FILE_DESCRIPTOR_SET).unwrap().file;
        let view = include_str!("job_view.rs").split("#[cfg(test)]").next().unwrap();
        let mut missing = Vec::new();
        for (name, left_out) in MESSAGES {
            let all = files.iter().flat_map(|file| &file.message_type);
            let message = all.clone().find(|it| it.name() == name).unwrap();
            let is_shown = |field: &str| {
                view.lines().any(|line| line.trim_start().starts_with(&format!("{field}: ")))
            };
            let fields = message.field.iter().map(|field| field.name());
            missing.extend(fields.filter(|it| !is_shown(it) && !left_out.contains(it)));
        }
        assert_eq!(missing, [""; 0]);
    }
}
