//! Models that read a text and write one: summarization, translation.

use std::sync::Arc;

use arrow_array::StringArray;
use traind_job_file::{Data, JobFile};
use traind_loader::{DecoderStart, TaskSpec, TextColumn};
use traind_models::{ModelConfig, Task, registry};

use super::{BatchShare, JobTask, KnownRows, Outputs, Reading, Scored, Texts, language_model};
use crate::error::RunResult;
use crate::metrics::{Metrics, bleu, rouge};
use crate::output::Predictions;

/// The column of `datasets` that holds a text for each language.
const TRANSLATION: &str = "translation";

pub(super) struct Seq2SeqLm {
    data: Data,
    max_target_length: u32,
    decoder_start: DecoderStart,
    /// Whether evaluations generate texts.
    writes: bool,
}

impl Seq2SeqLm {
    /// Fails where the config names no token for a decoder to start with.
    pub(super) fn new(job: &JobFile, config: &ModelConfig) -> RunResult<Seq2SeqLm> {
        let writes = job.train.predict_with_generate;
        let decoder_start = decoder_start(config)?;
        let positions = registry::max_positions(config, Task::Seq2SeqLm)? as u32;
        let max_target_length = job.target_length(positions);
        Ok(Seq2SeqLm { data: job.data.clone(), max_target_length, decoder_start, writes })
    }

    fn column(&self, name: &str, language: Option<&String>) -> TextColumn {
        match language {
            Some(language) => {
                TextColumn { column: TRANSLATION.to_owned(), field: Some(language.clone()) }
            }
            None => TextColumn { column: name.to_owned(), field: None },
        }
    }
}

/// The token that the decoder reads before all others, as transformers' models shift labels.
fn decoder_start(config: &ModelConfig) -> RunResult<DecoderStart> {
    const KEY: &str = "decoder_start_token_id";
    let default = match config.model_type()? {
        // Its targets end with the token of their language, whatever the config says.
        "mbart" => return Ok(DecoderStart::LastToken),
        "bart" => Some(2),
        "mt5" => Some(0),
        "t5" => None,
        other => {
            let problem = format!(
                "{other} is no encoder-decoder: seq2seq-lm trains t5, mt5, bart and mbart models"
            );
            return Err(config.error("model_type", problem).into());
        }
    };
    let given = config.token_id(KEY, i32::MAX as usize)?.or(default);
    let id = given.ok_or_else(|| config.error(KEY, "expected a token id, found none"))?;
    Ok(DecoderStart::Token(id as u32))
}

impl JobTask for Seq2SeqLm {
    fn task_spec(&self, reading: &Reading<'_>) -> RunResult<TaskSpec> {
        let data = &self.data;
        let target = self.column(&data.target, data.target_lang.as_ref());
        Ok(TaskSpec::Seq2SeqLm(traind_loader::Seq2SeqLm {
            source: self.column(&data.source, data.source_lang.as_ref()),
            target: reading.labelled.then_some(target),
            source_prefix: data.source_prefix.as_ref().map_or("", |it| it.as_str()).to_owned(),
            max_target_length: self.max_target_length,
            ignore_pad_token_for_loss: data.ignore_pad_token_for_loss,
            decoder_start: self.decoder_start,
        }))
    }

    fn max_target_length(&self) -> Option<u32> {
        Some(self.max_target_length)
    }

    fn batch_share(&self) -> BatchShare {
        BatchShare::Equal
    }

    fn output_metrics(&self, outputs: &Outputs) -> Metrics {
        let mut metrics = language_model::metrics(outputs);
        if let Some(texts) = &outputs.texts {
            metrics.extend(text_metrics(texts));
        }
        metrics
    }

    fn metric_names(&self, _rows: &KnownRows<'_>) -> Metrics {
        let texts = self.writes.then(Texts::default);
        self.output_metrics(&Outputs { texts, ..Outputs::default() })
    }

    fn predictions(&self, scored: &Scored<'_>) -> RunResult<Predictions> {
        let texts = scored.outputs.texts.iter().flat_map(|texts| &texts.predictions);
        let texts = StringArray::from_iter_values(texts);
        Ok(Predictions::default().with("prediction", Arc::new(texts)))
    }

    fn pipeline_tag(&self) -> &'static str {
        "text2text-generation"
    }
}

/// ROUGE and BLEU, and as `gen_len` the mean number of generated tokens.
fn text_metrics(texts: &Texts) -> Metrics {
    let pairs = || {
        let pairs = texts.predictions.iter().zip(&texts.references);
        pairs.map(|(prediction, reference)| (prediction.as_str(), reference.as_str()))
    };
    let mut metrics = rouge(pairs());
    metrics.extend(bleu(pairs()));
    let rows = texts.predictions.len().max(1) as f64;
    metrics.insert("gen_len".to_owned(), texts.lengths as f64 / rows);
    metrics
}
