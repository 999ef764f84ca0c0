//! Remote input and output: data, checkpoints and models in a bucket, models and data sets on the hub.

mod buckets;
mod data_sets;
mod eviction;
mod hubs;
mod outputs;
mod pushes;
mod secrets;
mod stalls;

use traind_tests::History;
use traind_tests::hub::Hub;

/// The environment of a daemon that may read a hub.
pub(crate) fn environment(hub: &Hub, token: Option<&str>) -> Vec<(&'static str, String)> {
    let token = token.map(|token| ("HF_TOKEN", token.to_owned()));
    [("HF_ENDPOINT", hub.server().url())].into_iter().chain(token).collect()
}

fn losses(history: &History) -> Vec<f64> {
    history.steps().iter().map(|step| step.loss).collect()
}

/// The message of the job's failure.
fn message(history: &History) -> String {
    history.finished().failure.clone().unwrap_or_default().message
}
