//! ELECTRA's pre-training: a generator replaces masked tokens, and a discriminator detects those that it replaced. The
//! output is the discriminator, with the generator in a folder below.

use traind_job_file::JobFile;
use traind_loader::{LabelEncoder, Masking, TaskSpec, TextTokenizer, TokenizedSet};
use traind_models::ModelConfig;
use traind_models::tasks::preference::Metric;

use super::masked_lm::MaskedLm;
use super::{JobTask, KnownRows, Outputs, Reading};
use crate::error::RunResult;
use crate::metrics::Metrics;
use crate::recipe::{step_metrics, token_generator};
use crate::step::Readout;

pub(super) struct ReplacedTokenDetection {
    job: JobFile,
    /// The rows are those of masked language models.
    masked: MaskedLm,
}

impl ReplacedTokenDetection {
    pub(super) fn new(job: &JobFile) -> ReplacedTokenDetection {
        ReplacedTokenDetection { job: job.clone(), masked: MaskedLm::new(job) }
    }
}

impl JobTask for ReplacedTokenDetection {
    fn task_spec(&self, reading: &Reading<'_>) -> RunResult<TaskSpec> {
        self.masked.task_spec(reading)
    }

    /// Says how large the generator is. That of a folder has its config already.
    fn configure(&self, config: &mut ModelConfig, _encoder: Option<&LabelEncoder>) {
        let named = config.token_generator().and_then(|generator| generator.config.clone());
        config.set_token_generator(token_generator(&self.job.replaced_token_detection, named));
    }

    fn block_size(&self, max_length: u32) -> Option<u32> {
        self.masked.block_size(max_length)
    }

    fn check_rows(&self, set: &TokenizedSet) -> RunResult<()> {
        self.masked.check_rows(set)
    }

    fn masking(&self, tokenizer: &dyn TextTokenizer) -> RunResult<Option<Masking>> {
        self.masked.masking(tokenizer)
    }

    fn readout(&self) -> Readout {
        Readout::Preferences
    }

    /// The losses and rates over all tokens of the split; 0 where there are none to count, as in scikit-learn.
    fn output_metrics(&self, outputs: &Outputs) -> Metrics {
        let columns = outputs.rows.first().map_or(0, |row| row.values.len());
        let rows = outputs.rows.len().max(1) as f64;
        let mean = |place: usize| {
            let values = outputs.rows.iter().filter_map(|row| row.values.get(place));
            values.map(|value| f64::from(*value)).sum::<f64>() / rows
        };
        let means: Vec<f64> = (0..columns).map(mean).collect();
        let found = Metric::values(step_metrics(&self.job), &means);
        let mut metrics = self.metric_names(&KnownRows::default());
        metrics.extend(found.map(|(name, value)| (name.to_owned(), value)));
        metrics
    }

    fn metric_names(&self, _rows: &KnownRows<'_>) -> Metrics {
        step_metrics(&self.job).iter().map(|metric| (metric.name.to_owned(), 0.0)).collect()
    }

    fn pipeline_tag(&self) -> &'static str {
        "feature-extraction"
    }
}
