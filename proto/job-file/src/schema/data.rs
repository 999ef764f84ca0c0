//! `data`: the rows to train and evaluate on, and how a task reads them.

use std::ops::Bound;
use std::path::Path;

use crate::schema::columns::Columns;
use crate::schema::data_files::DataFiles;
use crate::schema::layout::{
    DataLayout, ExcessLength, Mixing, PromptStyle, PromptTemplate, RowFields, TrainOn,
};
use crate::section::{above, section};
use crate::spelled::spelled;
use crate::values::{LabelMap, LabelName, Mapping, Prefix};

section! {
    /// The data to train and evaluate on. Files are CSV, JSON, JSONL, Parquet or Arrow, or plain
    /// `.txt` with one row per line in the column `text`, recognized by file extension; text files
    /// may be compressed (`.gz`, `.zst`). A folder must be one that `save_to_disk` of `datasets`
    /// wrote, or contain a folder of images or of texts for each class. `s3://BUCKET/KEY` is an object in a
    /// bucket, read with the daemon's AWS credentials (`AWS_ENDPOINT_URL` for servers other than
    /// AWS) and fetched into the cache once. `org/name`, unless it is a folder here, or
    /// `hf://datasets/ORG/NAME[@REVISION]` is a data set on the Hugging Face hub; each key gets the
    /// files of the split of its name, as `load_dataset` would. With `/FILE` appended, which may be
    /// a glob, it is these files. Entries of a list may also be mappings such as `{path: a.jsonl,
    /// split: "train[:10%]", format: alpaca, columns: {rename: {q: instruction}}, fields: {output:
    /// answer}, messages: chat, roles: {user: [person]}, message_property_mappings: {content: text},
    /// weight: 2, limit: 1000, dataset_config_name: en, revision: main}`, of which all keys but `path`
    /// may be left out, and for embedding such as `{path: pairs.jsonl, texts: [question, answer], loss:
    /// cosent, loss_args: {scale: 10}}`.
    pub struct Data {
        /// Files to train on. Required unless `train.do_train` is false. A data set on the hub is
        /// `org/name`, unless that is a folder, or `hf://datasets/ORG/NAME[@REVISION][/FILE]`,
        /// where FILE may be a glob; without FILE, each key gets the files of the split of its
        /// name, as with `load_dataset`.
        train: Option<DataFiles> = None;
        /// Files to evaluate on.
        validation: Option<DataFiles> = None;
        /// Training rows to evaluate on instead of `validation`, drawn with `train.data_seed`: a share
        /// below 1, or a number of at least 2.
        validation_split: Option<f64> = None, in above(0.0);
        /// Files to evaluate on once after training, and to predict on.
        test: Option<DataFiles> = None;
        /// Configuration of data sets on the hub; defaults to their default or only one.
        dataset_config_name: Option<String> = None;
        /// Branch, tag or commit of data sets on the hub; defaults to `main`.
        revision: Option<String> = None;
        /// Delimiter of `.csv` files: one character, or `auto` for the one of `,`, `;`, tab and `|`
        /// that divides the first lines alike. Defaults to `,`, and in `.tsv` files to a tab. This key
        /// and those up to `thousands` have the names and the meaning of pandas' `read_csv`.
        delimiter: Option<String> = None;
        /// Character around CSV fields that hold delimiters, quotes or line breaks.
        quotechar: String = "\"".to_owned();
        /// Character in CSV that takes the special meaning from the one after it, such as `\`.
        escapechar: Option<String> = None;
        /// Two quotes in a quoted CSV field stand for one.
        doublequote: bool = true;
        /// Use of quotes in CSV; only `none` changes the reading.
        quoting: Quoting = Quoting::Minimal;
        /// Treatment of CSV lines that have more fields than the rows before.
        on_bad_lines: OnBadLines = OnBadLines::Error;
        /// Lines to leave out at the start of CSV files.
        skiprows: u32 = 0;
        /// Row of CSV files with the column names, from 0; the rows before it are left out. Defaults
        /// to 0, and with `names` to none.
        header: Option<u32> = None;
        /// Column names of CSV files, in place of those in the file.
        names: Vec<String> = Vec::new();
        /// Character that begins a comment in CSV, which ends with the line.
        comment: Option<String> = None;
        /// CSV fields that are missing values, besides empty ones.
        na_values: Vec<String> = Vec::new();
        /// Decimal point of numbers in CSV.
        decimal: String = ".".to_owned();
        /// Character between groups of digits of numbers in CSV.
        thousands: Option<String> = None;
        /// Encoding of `.csv`, `.tsv`, `.jsonl` and `.txt` files, by its Python name, such as
        /// `latin-1`, `cp1252` or `utf-16`; defaults to UTF-8.
        encoding: Option<String> = None;
        /// Keep the line breaks of `.txt` files, and thus blank lines. By default, only causal
        /// language models keep them, as in transformers' examples.
        keep_linebreaks: Option<bool> = None;
        /// Column that holds the text.
        text: String = "text".to_owned();
        /// Column that holds the second text of a pair.
        text_pair: Option<String> = None;
        /// Columns of texts to embed, in the order in which the loss takes them, such as `[anchor,
        /// positive, negative]`, or of a query and passages for reranker; by default, all columns of
        /// the files but `label` and the index that pandas writes, in their order.
        texts: Vec<String> = Vec::new();
        /// Texts to put before those of a column, for embedding: `{question: "query: "}`.
        prompts: Mapping<String> = Mapping::default();
        /// Column that holds the label: a class, a number for regression, or a list of classes for
        /// multi-label classification. For embedding and reranker, the score, class or numbers of a row. Where
        /// files lack `label`, `labels` and `label_ids` are read, and for these two tasks `labels`, `score` and
        /// `scores`. For kto, whether a completion is desirable: true or false.
        label: String = "label".to_owned();
        /// Column that holds the weight of each row in the loss, a number of at least 0, for
        /// classification. Files to train and evaluate on need it.
        weight: Option<String> = None;
        /// Class of each label: `{1: negative, 2: negative, 3: neutral}`. Classes are numbered in
        /// order of first appearance, unless their names are the numbers from 0 up. Without a map,
        /// labels are class numbers from 0 up.
        label_map: Option<LabelMap> = None;
        /// Labels whose rows are left out and counted, such as `["-"]` for SNLI and `[-1]` for data sets that
        /// have it where a label is missing; `""` is a label without a value. Words of these labels, for token
        /// classification, count in no loss.
        ignored_labels: Vec<LabelName> = Vec::new();
        /// Format of a row's list of labels, for multi-label classification: the classes that
        /// apply, or a 0 or 1 for each class. By default, lists of floats, of booleans, and of as
        /// many 0s and 1s as there are classes are `one_hot`.
        label_format: Option<LabelFormat> = None;
        /// Column that holds the image, for image classification: a path relative to the file's
        /// folder, or a struct of its bytes and path, as in `datasets`. Images are PNG, JPEG or
        /// WebP.
        image: String = "image".to_owned();
        /// Train on random crops of images, some of them mirrored, as in transformers' example
        /// `run_image_classification`. Evaluation images are processed according to
        /// `preprocessor_config.json`.
        augmentation: bool = true;
        /// Column that holds the list of words, for token classification.
        tokens: String = "tokens".to_owned();
        /// Column that holds the list of labels, one per word, for token classification. Where files lack
        /// `labels`, `ner_tags` and `tags` are read.
        labels: String = "labels".to_owned();
        /// Label every token of a word, not only its first.
        label_all_tokens: bool = false;
        /// Column of question ids for predictions; without it, questions are numbered.
        id: Option<String> = None;
        /// Column that holds the question.
        question: String = "question".to_owned();
        /// Column that holds the context of a question.
        context: String = "context".to_owned();
        /// Column that holds the answers of a question: `{text: [...], answer_start: [...]}`.
        answers: String = "answers".to_owned();
        /// Overlap between consecutive windows of a long context, in tokens. Defaults to 128, or a third
        /// of `max_length` where that is at most 128.
        doc_stride: Option<u32> = None, in 0.0..=1_048_576.0;
        /// Allow unanswerable questions, as in SQuAD 2.0.
        version_2_with_negative: bool = false;
        /// Number of starts, ends and answers to consider for each question.
        n_best_size: u32 = 20, in 1.0..=1000.0;
        /// Maximum length of an answer, in tokens.
        max_answer_length: u32 = 30, in 1.0..=1_048_576.0;
        /// Margin by which the score of "no answer" must exceed that of the best answer.
        null_score_diff_threshold: f64 = 0.0;
        /// Column that holds the input text, for seq2seq-lm.
        source: String = "source".to_owned();
        /// Column that holds the output text, for seq2seq-lm.
        target: String = "target".to_owned();
        /// Source language in the `translation` column of `datasets`, which holds a text for each
        /// language; replaces `source`. mBART's codes (`en_XX`) also name the text without their
        /// country (`en`), and stand beside the tokens of sources.
        source_lang: Option<String> = None;
        /// Target language in the `translation` column; replaces `target`. mBART's codes stand beside
        /// the tokens of targets.
        target_lang: Option<String> = None;
        /// Prefix added to each source, such as T5's `summarize: `.
        source_prefix: Option<Prefix> = None;
        /// Maximum length of a source in tokens, including special tokens; longer ones are
        /// truncated. Defaults to the model's maximum, at most 1024.
        max_source_length: Option<u32> = None, in 1.0..=1_048_576.0;
        /// Maximum length of a target in tokens, including special tokens; longer ones are
        /// truncated. Defaults to the model's maximum, at most 128.
        max_target_length: Option<u32> = None, in 1.0..=1_048_576.0;
        /// Exclude the padding of targets from the loss.
        ignore_pad_token_for_loss: bool = true;
        /// Column that holds the messages of a conversation, for sft: `[{role: user, content: ...},
        /// {role: assistant, content: ...}]`. The chat template in the model folder turns them into
        /// text.
        messages: String = "messages".to_owned();
        /// Column that holds the prompt, as text or messages, for sft and preferences. For sft, files
        /// with this column also need `completion`; files with neither it nor `messages` need `text`.
        /// For pairs, files without it take the common prefix of `chosen` and `rejected` as the
        /// prompt.
        prompt: String = "prompt".to_owned();
        /// Column that holds the completion of the prompt, as text or messages, for sft
        /// and kto.
        completion: String = "completion".to_owned();
        /// Column that holds the preferred completion, as text or messages, for pairs: dpo, reward, orpo
        /// and cpo. For kto, files with this column and `rejected` have two rows for each pair.
        chosen: String = "chosen".to_owned();
        /// Column that holds the rejected completion, as text or messages, for pairs.
        rejected: String = "rejected".to_owned();
        /// Column that holds the number by which the reward of the chosen completion is to exceed that of
        /// the rejected one, for reward. Files without it have no margins.
        margin: String = "margin".to_owned();
        /// Compute the loss only on assistant text, which the chat template marks with `{%
        /// generation %}`, for sft.
        assistant_only_loss: bool = false;
        /// Compute the loss only on completions, not on their prompts, for sft. Defaults to true for
        /// files with the columns `prompt` and `completion`; of rows that are tokenized already, a
        /// `completion_mask` counts only then, as in TRL, or if this is set.
        completion_only_loss: Option<bool> = None;
        /// End-of-sequence token for texts, passed to chat templates as `eos_token`, for sft and
        /// preferences; defaults to that in `tokenizer_config.json`.
        eos_token: Option<String> = None;
        /// Pack several texts into each row of up to `max_length` tokens, for sft.
        packing: bool = false;
        /// Pack several texts into each evaluation row; defaults to `packing`.
        eval_packing: Option<bool> = None;
        /// How to pack texts into rows.
        packing_strategy: PackingStrategy = PackingStrategy::Bfd;
        /// Length in tokens of the blocks that concatenated texts are split into, for language
        /// models; defaults to the model's maximum, at most 1024.
        block_size: Option<u32> = None, in 2.0..=1_048_576.0;
        /// Make each text a separate row, for masked language models.
        line_by_line: bool = false;
        /// Fraction of tokens to mask, for masked language models.
        mlm_probability: f64 = 0.15, in (Bound::Excluded(0.0), Bound::Included(1.0));
        /// Fraction of those tokens that becomes the mask token; 0.8 by default, as with BERT, and 0.85 for
        /// `replaced-token-detection`, as with ELECTRA.
        mask_replace_prob: Option<f64> = None, in 0.0..=1.0;
        /// Fraction of those tokens that becomes another token; 0.1 by default, and 0 for
        /// `replaced-token-detection`. The others stay as they are.
        random_replace_prob: Option<f64> = None, in 0.0..=1.0;
        /// Mask all tokens of a word together.
        whole_word_mask: bool = false;
        /// Maximum length of a row in tokens, including special tokens; longer ones are truncated.
        /// Defaults to the model's maximum, but 384 for question answering and at most 1024 for sft
        /// and preferences. Models without a table of positions, such as rotary ones and DeBERTa, may read
        /// more than their `max_position_embeddings`. For seq2seq-lm, use `max_source_length` and
        /// `max_target_length`.
        max_length: Option<u32> = None, in 1.0..=1_048_576.0;
        /// Pad all rows to `max_length` (sources and targets to theirs), for one program of each
        /// kind instead of one per length.
        pad_to_max_length: bool = false;
        /// Pad rows to a multiple of this many tokens.
        pad_to_multiple_of: Option<u32> = None, in 1.0..=1_048_576.0;
        /// Maximum number of lengths that batches are padded to; each needs a program. By default
        /// at most 12, and only those that save more time in padding than compiling them takes,
        /// which depends on the platform, the model and the number of steps.
        padded_lengths_max: Option<u32> = None, in 1.0..=64.0;
        /// How the rows of several sets are mixed, with `train.data_seed`. The entries of a list are
        /// the sets; where they have a `weight`, it is the probability of a row to be from that set.
        /// Only the modes that interleave rows take weights. `proportional` and `round_robin` are for embedding:
        /// each batch then has rows of one set, whose texts and loss may be its own.
        mixing: Mixing = Mixing::Concatenate;
        /// Number of rows to read of each set at most, the first ones.
        max_samples: Option<u64> = None, in 1.0..;
        /// Layout of the rows of sft and of pairs. Without it, rows have the columns `messages`, `prompt`
        /// and `completion`, or `text`. Conversations in a layout are trained on by turn, as in
        /// axolotl, or with `template` as in LLaMA-Factory; rows of `alpaca` without `chat_template`
        /// and `template` get a prompt, see `prompt_style`.
        format: Option<DataLayout> = None;
        /// Columns of the layout.
        fields: RowFields;
        /// Chat template that renders conversations, for sft and preferences: a name of axolotl's, such as
        /// `chatml`, `llama3`, `gemma3` or `qwen3`, a file, or the template itself. By default,
        /// that of the model folder (`tokenizer_default`); `tokenizer_default_fallback_NAME` takes
        /// NAME where the folder has none.
        chat_template: Option<String> = None;
        /// Template of LLaMA-Factory by its name, such as `llama3`, `qwen3_nothink` or `mistral`, for
        /// sft and pairs with `format`: each turn is tokenized by itself, and long rows are cut as in
        /// LLaMA-Factory.
        template: Option<String> = None;
        /// Prompt of rows in the layout `alpaca`, for sft without `chat_template` and `template`.
        prompt_style: PromptStyle = PromptStyle::Instruct;
        /// A prompt of your own in its place.
        prompt_template: PromptTemplate;
        /// Compute the loss on questions and the system's text too, for sft. If this or one of the
        /// next keys is set, conversations are trained on by turn even without `format`.
        train_on_inputs: Option<bool> = None;
        /// Roles whose turns are trained on, for sft; defaults to `assistant`. A turn that has a
        /// field `train`, or a `weight` of 0 or 1, decides for itself.
        roles_to_train: Option<Vec<String>> = None;
        /// Field of messages that decides instead of `train` and `weight`, true or false.
        message_field_training: Option<String> = None;
        /// Turns whose end-of-sequence token is trained on; defaults to `turn`.
        train_on_eos: Option<TrainOn> = None;
        /// Turns whose end-of-turn token is trained on; defaults to `train_on_eos`.
        train_on_eot: Option<TrainOn> = None;
        /// Tokens that end a turn in the chat template, such as `<|im_end|>`; defaults to the
        /// end-of-sequence token.
        eot_tokens: Option<Vec<String>> = None;
        /// Fields of the template's messages and their names in the data: `{role: from, content:
        /// value}`.
        message_property_mappings: Mapping<String> = Mapping::default();
        /// Roles and their names in the data: `{user: [human], assistant: [gpt, model]}`.
        roles: Mapping<Vec<String>> = Mapping::default();
        /// Leave out the system's message of conversations.
        drop_system_message: bool = false;
        /// The system's text of rows without one, with `template`; defaults to the template's.
        default_system: Option<String> = None;
        /// Train on the last answer of a conversation alone, with `template`.
        mask_history: bool = false;
        /// Begin answers without a thought with an empty one that is trained on, with the `template`
        /// of a model that thinks; if false, it is part of the question.
        enable_thinking: bool = true;
        /// Treatment of rows of sft that are longer than `max_length`.
        excess_length_strategy: ExcessLength = ExcessLength::Truncate;
        /// Changes to the columns of all files before they are read.
        columns: Columns;
    }
}

impl Data {
    /// The file of its chat template in a resolved job file; None for names, and for templates as text.
    pub fn chat_template_file(&self) -> Option<&Path> {
        let template = self.chat_template.as_deref().filter(|it| it.starts_with('/'))?;
        let is_text = template.contains("{{") || template.contains("{%");
        (!is_text).then(|| Path::new(template))
    }
}

spelled! {
    /// The format of a list of labels.
    pub enum LabelFormat {
        /// The classes that apply.
        Classes = "classes",
        /// For each class, 1 if it applies and 0 if not.
        OneHot = "one_hot",
    }
}

spelled! {
    /// How to pack texts into rows.
    pub enum PackingStrategy {
        /// Best fit decreasing: each whole text goes into the fullest row that still has room for
        /// it. Positions restart with each text, and texts do not attend to each other.
        Bfd = "bfd",
        /// Texts are concatenated and cut into rows. Texts in the same row attend to each other.
        Wrapped = "wrapped",
    }
}

spelled! {
    /// Use of quotes in CSV, by the constants of Python's `csv`.
    pub enum Quoting {
        /// Fields may be quoted.
        Minimal = "minimal" | "QUOTE_MINIMAL",
        /// All fields are quoted.
        All = "all" | "QUOTE_ALL",
        /// Fields that are no numbers are quoted.
        Nonnumeric = "nonnumeric" | "QUOTE_NONNUMERIC",
        /// Quotes are text.
        None = "none" | "QUOTE_NONE",
    }
}

spelled! {
    /// Treatment of CSV lines with too many fields.
    pub enum OnBadLines {
        /// Refuse the file.
        Error = "error",
        /// Leave them out, with a warning that counts them and names the first ones.
        Warn = "warn",
        /// Leave them out.
        Skip = "skip",
    }
}
