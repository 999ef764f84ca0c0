//! The objectives of training. A task defines the labels and the loss; a family
//! computes the logits.

mod accuracy;
pub(crate) mod causal_lm;
pub mod embedding;
mod losses;
pub mod preference;
mod problem_type;
pub mod question_answering;
pub mod replaced_tokens;
pub mod reranker;
mod sample_weights;
mod sequence_classification;
mod softplus;
pub(crate) mod token_labels;

pub use traind_choices::{LabelsKind, Loss};

pub use accuracy::correct_sum;
pub use causal_lm::num_items_in_batch;

pub use losses::{LossSettings, TaskLoss};
pub use problem_type::ProblemType;
pub use sequence_classification::SequenceClassification;

/// The tasks of the job file, under its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// Classes of texts, or numbers to regress on.
    SequenceClassification,
    /// Classes of words.
    TokenClassification,
    /// Answers as spans of a context.
    QuestionAnswering,
    /// Words that were masked.
    MaskedLm,
    /// The next token.
    CausalLm,
    /// A target text for each source.
    Seq2SeqLm,
    /// Classes of images.
    ImageClassification,
    /// Embeddings of texts.
    Embedding,
    /// Tokens that a generator replaced.
    ReplacedTokenDetection,
}

impl Task {
    /// All tasks.
    pub const ALL: [Task; 9] = [
        Task::SequenceClassification,
        Task::TokenClassification,
        Task::QuestionAnswering,
        Task::MaskedLm,
        Task::CausalLm,
        Task::Seq2SeqLm,
        Task::ImageClassification,
        Task::Embedding,
        Task::ReplacedTokenDetection,
    ];

    /// Returns the name in messages and job files.
    pub fn name(self) -> &'static str {
        match self {
            Task::SequenceClassification => "sequence-classification",
            Task::TokenClassification => "token-classification",
            Task::QuestionAnswering => "question-answering",
            Task::MaskedLm => "masked-lm",
            Task::CausalLm => "causal-lm",
            Task::Seq2SeqLm => "seq2seq-lm",
            Task::ImageClassification => "image-classification",
            Task::Embedding => "embedding",
            Task::ReplacedTokenDetection => "replaced-token-detection",
        }
    }

    /// The names of the job file's tasks that train a model of this task, itself first.
    pub fn objectives(self) -> Vec<&'static str> {
        let others: &[&str] = match self {
            Task::SequenceClassification => &["reward", "reranker"],
            Task::CausalLm => &["sft", "dpo", "orpo", "cpo", "kto"],
            _ => &[],
        };
        [self.name()].into_iter().chain(others.iter().copied()).collect()
    }

    /// The task with a name of the job file.
    pub fn from_name(name: &str) -> Option<Task> {
        Task::ALL.into_iter().find(|task| task.name() == name)
    }
}
