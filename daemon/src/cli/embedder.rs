//! Options of commands that embed texts by a job, and the part of the job that they make.

use serde_json::{Value, json};

#[derive(clap::Args)]
pub(super) struct Embedder {
    /// Texts that a core embeds at once
    #[arg(long, value_name = "ROWS", default_value_t = 32)]
    batch_size: u32,
    /// Kind of cores: cpu, cuda or neuron
    #[arg(long, default_value = "cpu")]
    platform: String,
    /// Number of cores [default: all of the host's CPUs, else 1]
    #[arg(long, value_name = "COUNT")]
    cores: Option<usize>,
}

impl Embedder {
    /// A job that embeds `data` with a model and trains nothing.
    pub(super) fn job(&self, name: &str, model: &str, data: Value) -> Value {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        let default = || if self.platform == "cpu" { all() } else { 1 };
        json!({
            "name": name,
            "model": { "name_or_path": model, "task": "embedding" },
            "data": data,
            "train": {
                "do_train": false,
                "do_predict": true,
                "prediction_loss_only": true,
                "per_device_eval_batch_size": self.batch_size,
            },
            "resources": {
                "platform": self.platform,
                "cores": self.cores.unwrap_or_else(default),
            },
        })
    }
}
