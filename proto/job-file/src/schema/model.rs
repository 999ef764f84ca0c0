//! `model`: the model to train.

use serde_json::{Map, Value};

use crate::schema::vocabulary::SpecialTokens;
use crate::section::section;
use crate::spelled::spelled;
use crate::values::{FileSize, ModelSource};

section! {
    /// The model to train.
    pub struct Model {
        /// Hugging Face model folder, or a hub id such as `org/name`: the model is downloaded from
        /// the hub (`HF_ENDPOINT`, `HF_TOKEN`, `HF_HUB_OFFLINE`) unless it is in the Hugging Face
        /// cache (`HF_HOME`, `HF_HUB_CACHE`). A folder of that name comes first. What begins with
        /// `/`, `./` or `../` is a folder in any case.
        name_or_path: ModelSource;
        /// Revision of a model on the hub: a branch, tag or commit.
        revision: Option<String> = None;
        /// Task to train the model for.
        task: TaskName;
        /// Problem type for sequence classification; defaults to that in `config.json`, or one
        /// class per row. A single label means regression.
        problem_type: Option<ProblemType> = None;
        /// Number of classes; by default counted in `data.label_map`, or without one in the
        /// training data. 1 means regression. With `problem_type: regression`, the number of values
        /// per row.
        num_labels: Option<u32> = None, in 1.0..=1_000_000.0;
        /// Initialize the model from `config.json` with random weights, loading none.
        from_config: bool = false;
        /// Randomly initialize weights whose shapes do not match the model's, such as those of a
        /// head for other classes.
        ignore_mismatched_sizes: bool = false;
        /// Values that override those in `config.json`, for example `{hidden_dropout_prob: 0.0}`.
        config_overrides: Map<String, Value> = Map::new();
        /// Tokens to add to the tokenizer, as `tokenizer.add_tokens`. Embeddings get a row for each that
        /// is new, the mean of the rows that are there.
        add_tokens: Vec<String> = Vec::new();
        /// Special tokens to add to the tokenizer, or to give a role.
        add_special_tokens: SpecialTokens;
        /// Number that the rows of embeddings are rounded up to a multiple of, as with
        /// `resize_token_embeddings(pad_to_multiple_of)`.
        pad_vocab_to_multiple_of: Option<u32> = None, in 1.0..=65_536.0;
        /// How NVIDIA GPUs compute attention: step by step (`eager`), or in one pass that keeps no
        /// scores, by cuDNN (`flash_attention_2`), where its dropout is 0 and the size of a head is a
        /// multiple of 8 up to 128. On CPUs, attention is always computed in one pass.
        attn_implementation: AttnImplementation = AttnImplementation::Eager;
        /// Data type of frozen weights on the cores; trained weights are float32.
        dtype: WeightDtype = WeightDtype::Float32;
        /// Hugging Face model folder or hub id of the generator of `replaced-token-detection`. By default, it
        /// is the folder `generator` in that of the model, if there is one, or else a new one of the size
        /// that section `replaced_token_detection` says, with random weights.
        generator: Option<ModelSource> = None;
        /// Maximum size of a weights file in `output_dir` and in checkpoints, in bytes or as text
        /// such as `5GB`. Larger models are saved as several files with an index.
        max_shard_size: FileSize = FileSize::gigabytes(50), in 1.0..;
    }
}

spelled! {
    /// The problem type for sequence classification.
    pub enum ProblemType {
        /// One class per row.
        SingleLabelClassification = "single_label_classification",
        /// Any number of classes per row.
        MultiLabelClassification = "multi_label_classification",
        /// A number per row, or a list of `num_labels` numbers.
        Regression = "regression",
    }
}

spelled! {
    /// How attention is computed.
    pub enum AttnImplementation {
        /// Scores, shares and sums one after the other.
        Eager = "eager",
        /// In one pass over blocks of keys.
        FlashAttention2 = "flash_attention_2",
    }
}

spelled! {
    /// The data type of stored weights.
    pub enum WeightDtype {
        /// 32 bits.
        Float32 = "float32",
        /// 16 bits with the range of float32.
        Bfloat16 = "bfloat16",
    }
}

impl TaskName {
    /// Returns true if the labels are classes (or numbers) in a column of the data.
    pub fn is_classification(self) -> bool {
        matches!(
            self,
            Self::SequenceClassification | Self::TokenClassification | Self::ImageClassification
        )
    }

    /// Returns true if rows are prepared as TRL's trainers do: through a chat template, with padding
    /// behind them.
    pub fn is_of_conversations(self) -> bool {
        self == Self::Sft || self.is_of_preferences()
    }

    /// Returns true if rows say which completion is better, or whether one is good.
    pub fn is_of_preferences(self) -> bool {
        matches!(self, Self::Dpo | Self::Reward | Self::Orpo | Self::Cpo | Self::Kto)
    }

    /// Returns true if trained models generate texts.
    pub fn generates_texts(self) -> bool {
        let is_of_texts = self.is_of_conversations() && self != Self::Reward;
        is_of_texts || matches!(self, Self::CausalLm | Self::Seq2SeqLm)
    }

    /// Returns true if the tokens are their own labels.
    pub fn is_language_model(self) -> bool {
        matches!(self, Self::MaskedLm | Self::CausalLm | Self::ReplacedTokenDetection)
    }

    /// Returns true if tokens are masked.
    pub fn masks_tokens(self) -> bool {
        matches!(self, Self::MaskedLm | Self::ReplacedTokenDetection)
    }
}

spelled! {
    /// The task to train a model for.
    pub enum TaskName {
        /// One class per row.
        SequenceClassification = "sequence-classification" | "text-classification",
        /// One class per word.
        TokenClassification = "token-classification" | "ner",
        /// A span of a context.
        QuestionAnswering = "question-answering",
        /// The masked tokens.
        MaskedLm = "masked-lm" | "fill-mask",
        /// The tokens that a generator wrote in the place of masked ones (ELECTRA's pre-training).
        ReplacedTokenDetection = "replaced-token-detection",
        /// The next token.
        CausalLm = "causal-lm" | "text-generation",
        /// The answers of conversations, or completions of prompts (supervised fine-tuning).
        Sft = "sft",
        /// The better of two completions (direct preference optimization).
        Dpo = "dpo",
        /// A number for a text, larger for the better of two completions (reward model).
        Reward = "reward",
        /// The better of two completions and its text (odds ratio preference optimization).
        Orpo = "orpo",
        /// The better of two completions, without a reference (contrastive preference optimization,
        /// SimPO).
        Cpo = "cpo",
        /// Completions that are desirable or not (Kahneman–Tversky optimization).
        Kto = "kto",
        /// An output text from an input text.
        Seq2SeqLm = "seq2seq-lm" | "text2text-generation",
        /// One class per image.
        ImageClassification = "image-classification",
        /// Vectors of texts, by which they are compared.
        Embedding = "embedding" | "sentence-similarity",
        /// The relevance of passages to a query, read together (cross encoder).
        Reranker = "reranker" | "cross-encoder" | "text-ranking",
    }
}
