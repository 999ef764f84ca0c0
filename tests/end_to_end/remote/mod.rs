//! What is not on the host: data in a bucket, models and data sets on the hub.

mod buckets;
mod data_sets;
mod eviction;
mod hubs;
mod secrets;
mod stalls;

use traind_tests::Story;
use traind_tests::hub::Hub;

/// What a daemon has to know to ask a hub.
fn environment(hub: &Hub, token: Option<&str>) -> Vec<(&'static str, String)> {
    let token = token.map(|token| ("HF_TOKEN", token.to_owned()));
    [("HF_ENDPOINT", hub.server().url())].into_iter().chain(token).collect()
}

fn losses(story: &Story) -> Vec<f64> {
    story.steps().iter().map(|step| step.loss).collect()
}

/// Why the job failed, in words.
fn message(story: &Story) -> String {
    story.finished().failure.clone().unwrap_or_default().message
}
