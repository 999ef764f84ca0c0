//! Problems of labels, texts, images and objects; the error around each says where it is.

use traind_wording::counted;

use super::no_label::remedy_of;

/// Why an object of a bucket cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what its variant and its fields are")]
pub enum ObjectProblem {
    #[error("expected s3://BUCKET/KEY")]
    NotAUrl,
    #[error("there is no such bucket")]
    NoBucket,
    #[error("the bucket has no such object")]
    NotFound,
    #[error("access denied; the credentials in use may not read it")]
    Denied,
    #[error("the server does not accept the credentials")]
    Unauthenticated,
    #[error("it changed while it was being fetched")]
    Changed,
    #[error("cannot be fetched: {message}")]
    Failed { message: String },
    #[error("this build of traind reads no s3:// URLs")]
    Unsupported,
}

/// Why a value is not a label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what its variant and its fields are")]
pub enum LabelProblem {
    #[error("no label: it is missing, or NaN; data.ignored_labels: [\"\"] leaves it out")]
    Missing,
    #[error("label {label:?} is not in label_map, which has {known}{}", remedy_of(.label))]
    NotInMap { label: String, known: String },
    #[error("label {label:?} does not occur in the training data, which has {known}{}", remedy_of(.label))]
    Unseen { label: String, known: String },
    #[error(
        "label {label:?} is not a class of the model, which has {known}, nor the number of one{}",
        remedy_of(.label)
    )]
    NotOfModel { label: String, known: String },
    #[error(
        "class {class:?} is none of those that are trained: {known}; leave its rows out, or train it too"
    )]
    UnknownClass { class: String, known: String },
    #[error(
        "label {label} is outside 0..{num_labels} (num_labels is {num_labels}); classes that are not \
         numbered from 0 need a data.label_map"
    )]
    OutOfRange { label: i64, num_labels: u32 },
    #[error(
        "label {label} is negative; classes that are not numbered from 0 need a data.label_map, and \
         data.ignored_labels: [{label}] leaves out rows that have no label"
    )]
    Negative { label: i64 },
    #[error(
        "label -100 is for tokens that no loss counts; leave this row out, as data.ignored_labels: [-100] does"
    )]
    Ignored,
    #[error("expected a list of labels, found {found}")]
    NotAList { found: &'static str },
    #[error("{found} is not a class label")]
    NotAClass { found: String },
    #[error("{found} is not a class label; to regress on numbers, set model.num_labels to 1")]
    Fraction { found: String },
    #[error(
        "a list is not a class label; several classes a row are model.problem_type \
         multi_label_classification"
    )]
    SeveralClasses,
    #[error("{found} is not a number to regress on")]
    NotANumber { found: String },
    #[error("{}, where one for each of {num_labels} classes is expected", counted(.found, "number"))]
    NotOneEach { found: usize, num_labels: usize },
    #[error("{found} does not say whether a class applies, which is 0 or 1")]
    NotAFlag { found: String },
    #[error("{found} does not say whether texts belong together, which is 1 or 0")]
    NotPaired { found: String },
    #[error(
        "{found} is outside 0 to 1, how probable it is that a passage is relevant: divide scores by their largest, or \
         choose a loss of scores, such as mse"
    )]
    NotAProbability { found: String },
    #[error(
        "{found} is outside -1 to 1, the cosines that texts can have: divide scores by their largest, or choose a loss \
         of their order, such as cosent"
    )]
    NotACosine { found: String },
    #[error("{} for {}", counted(.found, "label"), counted(.passages, "passage"))]
    PassageCount { found: usize, passages: usize },
    #[error("{} to regress on, where model.num_labels is {num_labels}", counted(.found, "number"))]
    Count { found: usize, num_labels: u32 },
    #[error("{}, where {wanted} are expected: {are}", counted(.found, "number"))]
    Numbers { found: usize, wanted: u32, are: &'static str },
}

impl LabelProblem {
    /// Whether the row has no label at all.
    pub(crate) fn is_missing(&self) -> bool {
        *self == Self::Missing
    }
}

/// Why an answer cannot be trained on or scored against.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what its variant and its fields are")]
pub enum AnswerProblem {
    #[error("expected {{text: [...], answer_start: [...]}}, found {found}")]
    Shape { found: &'static str },
    #[error("{}, but {}", counted(.texts, "text"), counted(.starts, "answer start"))]
    Count { texts: usize, starts: usize },
    #[error("answer {answer:?} is not in its context at character {start}, where {found:?} is")]
    NotThere { answer: String, start: i64, found: String },
}

/// Why a text cannot be tokenized.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what its variant and its fields are")]
pub enum TokenizeProblem {
    #[error(
        "its {tokens} tokens leave room for {room} of the other text, which doc_stride {doc_stride} \
         must be below"
    )]
    NoRoom { tokens: usize, room: usize, doc_stride: u32 },
    #[error("{message}")]
    Failed { message: String },
    #[error("{message}")]
    Panicked { message: String },
}

/// Why a row has no image to train on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what its variant and its fields are")]
pub enum ImageProblem {
    #[error("expected an image's path or its bytes, found {found}")]
    Kind { found: &'static str },
    #[error("cannot read the image: {message}")]
    Unreadable { message: String },
    #[error("the image has {found} bytes; at most {max} are read")]
    Bytes { found: u64, max: u64 },
    #[error("the image has {width} x {height} pixels; from 1 to {max} are decoded")]
    Pixels { width: u32, height: u32, max: u64 },
    #[error("neither a PNG, nor a JPEG, nor a WebP image{}{found}", if .found.is_empty() { "" } else { ": " })]
    Format { found: &'static str },
    #[error("the image is damaged: {message}")]
    Damaged { message: String },
}

/// Why a row is not a conversation to train on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what its variant and its fields are")]
pub enum ChatProblem {
    #[error("expected a list of messages or text, found {found}")]
    NotAConversation { found: &'static str },
    #[error("the conversation has no messages")]
    Empty,
    #[error(
        "the conversation ends with a message of {role:?}, and not with an answer of the assistant"
    )]
    NoAnswer { role: String },
    #[error("expected messages such as {{role: user, content: ...}}, found {found}")]
    NotAMessage { found: &'static str },
    #[error("a message has no role")]
    NoRole,
    #[error("values are nested too deeply")]
    Depth,
    #[error("not a list of tools: {message}")]
    Tools { message: String },
    #[error("expected a struct of variables of the chat template, found {found}")]
    Variables { found: &'static str },
    #[error("the text has U+FDD0 or U+FDD1, which are not characters")]
    Mark,
    #[error("the chat template does not write the text of a message of the role {role}")]
    UnwrittenRole { role: &'static str },
    #[error("the chat template fails: {message}")]
    Template { message: String },
    #[error(
        "the tokenizer has no chat template: put one into chat_template.jinja in the model folder"
    )]
    NoTemplate,
    #[error("expected a pair of a question and its answer, found {found}")]
    NotAPair { found: &'static str },
    #[error("a part of a message has `train` or `weight`, which apply to whole messages")]
    PartOfMessage,
    #[error(
        "the row has tools or calls of them, which data.template does not support; \
         data.chat_template does"
    )]
    ToolsOfTurns,
    #[error("is text where the other column has messages; prompt and completion are alike")]
    Mixed,
    #[error(
        "no text of the assistant, which data.assistant_only_loss trains on: the chat template marks \
         it by {{% generation %}}"
    )]
    NothingGenerated,
    #[error("data.assistant_only_loss needs messages, found text")]
    NoMessages,
}
