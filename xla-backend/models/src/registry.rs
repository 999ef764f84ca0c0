//! From (`model_type`, task) to a model. A new family or task of a family is
//! one line in [`ENTRIES`].

use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::families::{bert, distilbert, gpt2, roberta};
use crate::model::Model;
use crate::tasks::Task;

/// A model that can be built.
#[derive(Debug)]
pub struct Entry {
    /// `model_type` of `config.json`.
    pub model_type: &'static str,
    pub task: Task,
    /// The class in transformers, as `architectures` of `config.json` has it.
    pub architecture: &'static str,
    /// The config keys that the family reads.
    pub keys: &'static [&'static str],
    build: fn(ModelConfig) -> Result<Box<dyn Model>>,
}

#[rustfmt::skip]
pub const ENTRIES: &[Entry] = &[
    Entry { model_type: "bert", task: Task::SequenceClassification, architecture: "BertForSequenceClassification", keys: bert::KEYS, build: |config| bert::FAMILY.sequence_classification(config) },
    Entry { model_type: "bert", task: Task::TokenClassification, architecture: "BertForTokenClassification", keys: bert::KEYS, build: |config| bert::FAMILY.token_classification(config) },
    Entry { model_type: "bert", task: Task::QuestionAnswering, architecture: "BertForQuestionAnswering", keys: bert::KEYS, build: |config| bert::FAMILY.question_answering(config) },
    Entry { model_type: "bert", task: Task::MaskedLm, architecture: "BertForMaskedLM", keys: bert::KEYS, build: |config| bert::FAMILY.masked_lm(config) },
    Entry { model_type: "distilbert", task: Task::SequenceClassification, architecture: "DistilBertForSequenceClassification", keys: distilbert::KEYS, build: |config| distilbert::FAMILY.sequence_classification(config) },
    Entry { model_type: "distilbert", task: Task::TokenClassification, architecture: "DistilBertForTokenClassification", keys: distilbert::KEYS, build: |config| distilbert::FAMILY.token_classification(config) },
    Entry { model_type: "distilbert", task: Task::QuestionAnswering, architecture: "DistilBertForQuestionAnswering", keys: distilbert::KEYS, build: |config| distilbert::FAMILY.question_answering(config) },
    Entry { model_type: "distilbert", task: Task::MaskedLm, architecture: "DistilBertForMaskedLM", keys: distilbert::KEYS, build: |config| distilbert::FAMILY.masked_lm(config) },
    Entry { model_type: "roberta", task: Task::SequenceClassification, architecture: "RobertaForSequenceClassification", keys: roberta::KEYS, build: |config| roberta::FAMILY.sequence_classification(config) },
    Entry { model_type: "roberta", task: Task::TokenClassification, architecture: "RobertaForTokenClassification", keys: roberta::KEYS, build: |config| roberta::FAMILY.token_classification(config) },
    Entry { model_type: "roberta", task: Task::QuestionAnswering, architecture: "RobertaForQuestionAnswering", keys: roberta::KEYS, build: |config| roberta::FAMILY.question_answering(config) },
    Entry { model_type: "roberta", task: Task::MaskedLm, architecture: "RobertaForMaskedLM", keys: roberta::KEYS, build: |config| roberta::FAMILY.masked_lm(config) },
    Entry { model_type: "xlm-roberta", task: Task::SequenceClassification, architecture: "XLMRobertaForSequenceClassification", keys: roberta::KEYS, build: |config| roberta::FAMILY.sequence_classification(config) },
    Entry { model_type: "xlm-roberta", task: Task::TokenClassification, architecture: "XLMRobertaForTokenClassification", keys: roberta::KEYS, build: |config| roberta::FAMILY.token_classification(config) },
    Entry { model_type: "xlm-roberta", task: Task::QuestionAnswering, architecture: "XLMRobertaForQuestionAnswering", keys: roberta::KEYS, build: |config| roberta::FAMILY.question_answering(config) },
    Entry { model_type: "xlm-roberta", task: Task::MaskedLm, architecture: "XLMRobertaForMaskedLM", keys: roberta::KEYS, build: |config| roberta::FAMILY.masked_lm(config) },
    Entry { model_type: "gpt2", task: Task::CausalLm, architecture: "GPT2LMHeadModel", keys: gpt2::KEYS, build: gpt2::causal_lm },
    Entry { model_type: "gpt2", task: Task::SequenceClassification, architecture: "GPT2ForSequenceClassification", keys: gpt2::KEYS, build: gpt2::sequence_classification },
];

/// Keys that a task reads, whatever the family.
const TASK_KEYS: &[&str] = &["id2label", "label2id", "num_labels", "problem_type"];

/// Finds the model of a config for a task.
pub fn find(config: &ModelConfig, task: Task) -> Result<&'static Entry> {
    let model_type = config.model_type()?;
    let family = || ENTRIES.iter().filter(|entry| entry.model_type == model_type);
    if family().next().is_none() {
        return Err(Error::UnknownModelType {
            path: config.path().to_owned(),
            model_type: model_type.to_owned(),
            known: model_types(),
        });
    }
    family().find(|entry| entry.task == task).ok_or_else(|| Error::UnsupportedTask {
        model_type: model_type.to_owned(),
        task: task.name().to_owned(),
        supported: family().map(|entry| entry.task.name()).collect(),
    })
}

/// Builds the model of a config for a task. The model's config carries the
/// class name of that task as its architecture.
pub fn build(mut config: ModelConfig, task: Task) -> Result<Box<dyn Model>> {
    let entry = find(&config, task)?;
    check_overrides(&config, entry)?;
    config.set("architectures", vec![entry.architecture]);
    (entry.build)(config)
}

/// The families, each once.
pub fn model_types() -> Vec<&'static str> {
    let mut types: Vec<_> = ENTRIES.iter().map(|entry| entry.model_type).collect();
    types.dedup();
    types
}

/// An override that the file lacks and the family does not read is a slip.
fn check_overrides(config: &ModelConfig, entry: &Entry) -> Result<()> {
    let known = || entry.keys.iter().chain(TASK_KEYS);
    match config.new_keys().iter().find(|key| !known().any(|known| known == key)) {
        None => Ok(()),
        Some(key) => Err(Error::UnknownOverride {
            key: key.clone(),
            model_type: entry.model_type.to_owned(),
            nearest: nearest(key, known()).map(str::to_owned),
        }),
    }
}

fn nearest<'a>(key: &str, known: impl Iterator<Item = &'a &'static str>) -> Option<&'static str> {
    const SIMILARITY_MIN: f64 = 0.8;
    let scored = known.map(|name| (strsim::jaro_winkler(key, name), *name));
    let best = scored.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (best.0 >= SIMILARITY_MIN).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_unique_and_grouped_by_family() {
        for (index, entry) in ENTRIES.iter().enumerate() {
            let same =
                |other: &&Entry| other.model_type == entry.model_type && other.task == entry.task;
            assert_eq!(ENTRIES.iter().filter(same).count(), 1, "{entry:?}");
            let earlier = ENTRIES[..index].iter().rposition(|e| e.model_type == entry.model_type);
            assert!(earlier.is_none_or(|at| at + 1 == index), "{} is split", entry.model_type);
        }
    }
}
