//! Question answering: answers are spans of a context.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{Float64Array, StringArray, UInt32Array};
use serde_json::{Map, Value, json};
use traind_job_file::{Data, JobFile};
use traind_loader::squad::{
    self, AnswerOptions, Candidate, Prediction, Question, SquadScores, WindowLogits,
};
use traind_loader::{LabelEncoder, TaskSpec, TokenizedSet};
use traind_models::ModelConfig;

use super::{JobTask, KnownRows, Reading, Scored};
use crate::error::RunResult;
use crate::metrics::{self, Metrics, argmax};
use crate::output::{self, Predictions, failed};
use crate::step::Readout;

/// The window length of `run_qa`.
const MAX_LENGTH: u32 = 384;
/// The overlap of windows of `run_qa`.
const DOC_STRIDE: u32 = 128;

pub(super) struct QuestionAnswering {
    data: Data,
}

impl QuestionAnswering {
    pub(super) fn new(job: &JobFile) -> QuestionAnswering {
        QuestionAnswering { data: job.data.clone() }
    }

    fn options(&self) -> AnswerOptions {
        AnswerOptions {
            n_best_size: self.data.n_best_size as usize,
            max_answer_length: self.data.max_answer_length as usize,
            version_2_with_negative: self.data.version_2_with_negative,
            null_score_diff_threshold: self.data.null_score_diff_threshold as f32,
        }
    }

    /// Predicts the answer to each question from all of its windows.
    fn predict(&self, scored: &Scored<'_>) -> RunResult<Vec<Prediction>> {
        let Scored { set, questions, .. } = *scored;
        let mut rows_by_question: Vec<Vec<usize>> = vec![Vec::new(); questions.all().len()];
        for row in 0..set.len() {
            let index = questions.index(set.source_row(row));
            if let Some(rows) = index.and_then(|index| rows_by_question.get_mut(index)) {
                rows.push(row);
            }
        }
        let questions = questions.all().iter().zip(&rows_by_question);
        questions.map(|(question, rows)| self.predict_one(scored, question, rows)).collect()
    }

    /// Predicts the answer to a question, whose windows are `rows` of the split.
    fn predict_one(
        &self,
        scored: &Scored<'_>,
        question: &Question,
        rows: &[usize],
    ) -> RunResult<Prediction> {
        let offsets =
            rows.iter().map(|&row| Ok(scored.set.context_offsets(row)?.unwrap_or_default()));
        let offsets = offsets.collect::<RunResult<Vec<_>>>()?;
        let windows = rows.iter().zip(&offsets).map(|(&row, context_offsets)| {
            let values = &scored.outputs.rows[row].values;
            let (start_logits, end_logits) = values.split_at(values.len() / 2);
            WindowLogits { context_offsets, start_logits, end_logits }
        });
        Ok(squad::predict(question, &windows.collect::<Vec<_>>(), &self.options()))
    }
}

impl JobTask for QuestionAnswering {
    fn task_spec(&self, reading: &Reading<'_>) -> RunResult<TaskSpec> {
        let data = &self.data;
        Ok(TaskSpec::QuestionAnswering(traind_loader::QuestionAnswering {
            id: data.id.clone(),
            question: data.question.clone(),
            context: data.context.clone(),
            answers: reading.labelled.then(|| data.answers.clone()),
            doc_stride: data.doc_stride.unwrap_or_else(|| default_stride(reading.max_length)),
            keep_offsets: reading.evaluated,
        }))
    }

    /// The family sets its two labels itself.
    fn configure(&self, _config: &mut ModelConfig, _encoder: Option<&LabelEncoder>) {}

    fn max_length(&self) -> Option<u32> {
        Some(MAX_LENGTH)
    }

    fn readout(&self) -> Readout {
        Readout::SpanLogits
    }

    /// Rows of tokens have no texts to compare.
    fn has_metrics(&self, set: &TokenizedSet) -> bool {
        !set.is_pretokenized()
    }

    fn metrics(&self, scored: &Scored<'_>) -> RunResult<Metrics> {
        let predictions = self.predict(scored)?;
        let pairs = scored.questions.all().iter().zip(&predictions).map(|(question, answer)| {
            let right = question.answers.iter().map(|answer| answer.text.as_str());
            (answer.text.as_str(), right.collect())
        });
        let version_2 = self.data.version_2_with_negative;
        Ok(metrics::squad(&squad::score(pairs, version_2), version_2))
    }

    fn metric_names(&self, _rows: &KnownRows<'_>) -> Metrics {
        metrics::squad(&SquadScores::default(), self.data.version_2_with_negative)
    }

    /// Writes `predictions.json` and `nbest_predictions.json` in the format of SQuAD's scripts, and
    /// `null_odds.json` where questions may have no answer.
    fn write_report(&self, folder: &Path, scored: &Scored<'_>) -> RunResult<()> {
        if scored.set.is_pretokenized() {
            return Ok(());
        }
        let predictions = self.predict(scored)?;
        let ids = || scored.questions.all().iter().map(|question| question.id.clone());
        let texts = predictions.iter().map(|answer| json!(answer.text));
        write_json(&folder.join("predictions.json"), ids().zip(texts).collect())?;
        let n_best = predictions.iter().map(n_best_json);
        write_json(&folder.join("nbest_predictions.json"), ids().zip(n_best).collect())?;
        if self.data.version_2_with_negative {
            let odds = predictions.iter().map(|answer| json!(answer.null_score_diff));
            write_json(&folder.join("null_odds.json"), ids().zip(odds).collect())?;
        }
        Ok(())
    }

    /// Has `id` and `prediction` of each question, `start` and `end` of the answer in characters of
    /// the context, and its `probability` among the candidates. The last three are null where "no
    /// answer" is predicted. Rows of tokens have `start_position` and `end_position` of a token.
    fn predictions(&self, scored: &Scored<'_>) -> RunResult<Predictions> {
        if scored.set.is_pretokenized() {
            return Ok(positions(scored));
        }
        let predictions = self.predict(scored)?;
        let ids = scored.questions.all().iter().map(|question| question.id.as_str());
        let texts = predictions.iter().map(|answer| answer.text.as_str());
        let given = || predictions.iter().map(Prediction::given);
        let position = |end: fn(&Candidate) -> u32| -> UInt32Array {
            given().map(|answer| answer.map(end)).collect()
        };
        let probability: Float64Array =
            given().map(|answer| answer.map(|answer| answer.probability)).collect();
        Ok(Predictions::default()
            .with("id", Arc::new(StringArray::from_iter_values(ids)))
            .with("prediction", Arc::new(StringArray::from_iter_values(texts)))
            .with("start", Arc::new(position(|answer| answer.start)))
            .with("end", Arc::new(position(|answer| answer.end)))
            .with("probability", Arc::new(probability)))
    }

    fn pipeline_tag(&self) -> &'static str {
        "question-answering"
    }
}

/// The overlap of windows of up to `max_length` tokens: a third of them, where they are too short for the script's.
fn default_stride(max_length: u32) -> u32 {
    if DOC_STRIDE < max_length { DOC_STRIDE } else { max_length / 3 }
}

/// The most probable first and last tokens of the answers, where the texts are not known.
fn positions(scored: &Scored<'_>) -> Predictions {
    let rows = || scored.outputs.rows.iter().map(|row| row.values.split_at(row.values.len() / 2));
    let starts = UInt32Array::from_iter_values(rows().map(|(start, _)| argmax(start) as u32));
    let ends = UInt32Array::from_iter_values(rows().map(|(_, end)| argmax(end) as u32));
    Predictions::default()
        .with("start_position", Arc::new(starts))
        .with("end_position", Arc::new(ends))
}

fn n_best_json(prediction: &Prediction) -> Value {
    let candidates = prediction.n_best.iter().map(|candidate| {
        json!({
            "text": candidate.text,
            "probability": candidate.probability,
            "start_logit": candidate.start_logit,
            "end_logit": candidate.end_logit,
        })
    });
    candidates.collect()
}

fn write_json(path: &Path, answers: Map<String, Value>) -> RunResult<()> {
    let text = serde_json::to_vec_pretty(&answers)
        .map_err(|error| failed("serialize", path)(error.into()))?;
    output::write(path, &text)
}
