//! A job as `traind get` and the web page show it, with the wire's field names. The messages in a job are shown as they
//! are (`proto/build.rs`); the job itself has times, a state and a cost in words.

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
    parent: Option<v1::Parent>,
    base_dir: String,
    attempt: u32,
    restarts: u32,
    last_sequence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<v1::Step>,
    metrics: BTreeMap<String, f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<v1::Failure>,
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    data: Vec<v1::DataPrepared>,
    job_file: String,
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
            parent: job.parent,
            base_dir: job.base_dir,
            attempt: job.attempt,
            restarts: job.restarts,
            last_sequence: job.last_sequence,
            progress: job.progress,
            metrics: job.metrics,
            failure: job.failure,
            warnings: job.warnings.into_iter().map(|warning| warning.message).collect(),
            data: job.data,
            job_file: job.job_file,
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

    use super::*;

    /// The fields of a job that its view leaves out.
    const LEFT_OUT: [&str; 1] = ["request_id"];

    /// A field that is added to the wire is shown, or stands in the list.
    #[test]
    fn every_field_of_a_job_is_in_its_view() {
        let files = FileDescriptorSet::decode(traind_proto::FILE_DESCRIPTOR_SET).unwrap().file;
        let job = files.iter().flat_map(|file| &file.message_type).find(|it| it.name() == "Job");
        let view = include_str!("job_view.rs").split("#[cfg(test)]").next().unwrap();
        let is_shown = |field: &str| {
            view.lines().any(|line| line.trim_start().starts_with(&format!("{field}: ")))
        };
        let fields = job.unwrap().field.iter().map(|field| field.name());
        let missing: Vec<&str> =
            fields.filter(|it| !is_shown(it) && !LEFT_OUT.contains(it)).collect();
        assert_eq!(missing, [""; 0]);
    }

    #[test]
    fn messages_of_a_job_have_all_that_is_known() {
        let job = v1::Job {
            progress: Some(v1::Step {
                step: 3,
                metrics: [("rewards/margins".to_owned(), 0.5)].into(),
                ..v1::Step::default()
            }),
            failure: Some(v1::Failure {
                reason: "LOST_HOST".to_owned(),
                host: Some("node-7".to_owned()),
                ..v1::Failure::default()
            }),
            ..v1::Job::default()
        };
        let view = serde_json::to_value(JobView::from(job)).unwrap();
        assert_eq!(view["progress"]["step"], 3);
        assert_eq!(view["progress"]["metrics"]["rewards/margins"], 0.5);
        let failure = serde_json::json!({"reason": "LOST_HOST", "message": "", "host": "node-7"});
        assert_eq!(view["failure"], failure);
    }
}
