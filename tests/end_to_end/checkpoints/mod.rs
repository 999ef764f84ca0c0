//! Checkpoints: their content, resuming from them, and when they are written.

mod best;
mod damage;
mod exact;
mod kept;
mod leaving;
mod samples;

use std::fs;
use std::path::{Path, PathBuf};

use traind_tests::{Draft, Output, until};

/// The steps of the checkpoints in a job's output folder, ascending.
fn checkpoints(output: &Output) -> Vec<u64> {
    let names = output.names();
    let mut steps: Vec<u64> =
        names.iter().filter_map(|name| name.strip_prefix("checkpoint-")?.parse().ok()).collect();
    steps.sort_unstable();
    assert!(!names.iter().any(|name| name.ends_with(".partial")), "{names:?}");
    steps
}

fn checkpoint(draft: &Draft, step: u64) -> PathBuf {
    draft.path("out").join(format!("checkpoint-{step}"))
}

/// Waits until the checkpoint of a step is complete.
pub(crate) async fn until_durable(draft: &Draft, step: u64) {
    let manifest = checkpoint(draft, step).join("manifest.json");
    until(&format!("{} exists", manifest.display()), || manifest.exists()).await;
}

/// The bytes of a whole model, or of adapters.
pub(crate) fn weights(folder: &Path) -> Vec<u8> {
    let whole = folder.join("model.safetensors");
    let file = if whole.exists() { whole } else { folder.join("adapter_model.safetensors") };
    fs::read(file).unwrap()
}

/// The bits of each logged step that two equal runs share.
pub(crate) fn trace(output: &Output) -> Vec<[u64; 4]> {
    let state = output.trainer_state();
    let bits = |entry: &&serde_json::Value| {
        ["step", "loss", "grad_norm", "learning_rate"]
            .map(|key| entry[key].as_f64().unwrap().to_bits())
    };
    state.history("loss").iter().map(bits).collect()
}
