//! `data`: the rows to train and evaluate on, and how a task reads them.

use std::ops::Bound;

use crate::schema::columns::Columns;
use crate::section::section;
use crate::spelled::spelled;
use crate::values::{DataFiles, LabelMap};

section! {
    /// The rows to train and evaluate on. Files are CSV, JSON, JSONL, Parquet or Arrow,
    /// or plain `.txt` with one row per line in the column `text`, recognized by the ends of their
    /// names; text files may be compressed (`.gz`, `.zst`). A folder must be one
    /// that `save_to_disk` of `datasets` wrote, or have a folder of images for each class. `s3://BUCKET/KEY` is an object of a bucket, by
    /// the daemon's AWS credentials (`AWS_ENDPOINT_URL` for servers other than AWS); it is
    /// fetched into the cache once. `org/name` that is no folder here, or
    /// `hf://datasets/ORG/NAME[@REVISION]`, is a data set of the Hugging Face hub, of which each
    /// key takes the files of the split of its name as `load_dataset` would; with `/FILE` behind
    /// it, which may be a glob, it is these files.
    pub struct Data {
        /// Files to train on. Required unless `train.do_train` is false. A data set of the hub
        /// is `org/name`, unless there is such a folder, or
        /// `hf://datasets/ORG/NAME[@REVISION][/FILE]`, where FILE may be a glob; without FILE,
        /// each split has the files of its name as `load_dataset` finds them.
        train: Option<DataFiles> = None;
        /// Files to evaluate on.
        validation: Option<DataFiles> = None;
        /// Share of the training rows to evaluate on instead of `validation`, drawn with
        /// `train.data_seed`.
        validation_split: Option<f64> = None, in (Bound::Excluded(0.0), Bound::Excluded(1.0));
        /// Files to evaluate on once, when training is over, and to predict on.
        test: Option<DataFiles> = None;
        /// Configuration of the data sets of the hub; by default their default or only one.
        dataset_config_name: Option<String> = None;
        /// Branch, tag or commit of the data sets of the hub; `main` by default.
        revision: Option<String> = None;
        /// Delimiter of `.csv` files, one character; `,` by default.
        delimiter: Option<String> = None;
        /// Encoding of `.csv`, `.tsv`, `.jsonl` and `.txt` files, by its name in Python, such as
        /// `latin-1`, `cp1252` or `utf-16`; UTF-8 by default.
        encoding: Option<String> = None;
        /// Keep the line breaks of `.txt` files, and with them blank lines. By default only causal
        /// language models keep them, as in transformers' examples.
        keep_linebreaks: Option<bool> = None;
        /// Column that holds the text.
        text: String = "text".to_owned();
        /// Column that holds the second text of a pair.
        text_pair: Option<String> = None;
        /// Column that holds the label: a class, a number for regression, a list of
        /// classes for multi-label classification.
        label: String = "label".to_owned();
        /// Class of each label: `{1: negative, 2: negative, 3: neutral}`. Classes are
        /// numbered in the order they first appear in, unless their names are the
        /// numbers from 0 on. Without it, labels are class numbers from 0 on.
        label_map: Option<LabelMap> = None;
        /// Meaning of a row's list of labels, for multi-label classification: the classes
        /// that apply, or a 0 or 1 for each class. By default, lists of floats, of booleans and of
        /// as many 0 and 1 as there are classes are `one_hot`.
        label_format: Option<LabelFormat> = None;
        /// Column that holds the image, for image classification: a path from the folder of the file
        /// on, or a struct of its bytes and path as `datasets` has it. Images are PNG, JPEG or WebP.
        image: String = "image".to_owned();
        /// Train on random crops of images, some of them mirrored, as transformers' example
        /// `run_image_classification` does. Evaluations see images as `preprocessor_config.json` says.
        augmentation: bool = true;
        /// Column that holds the list of words, for token classification.
        tokens: String = "tokens".to_owned();
        /// Column that holds the list of labels, one per word, for token classification.
        labels: String = "labels".to_owned();
        /// Label every token of a word and not only its first.
        label_all_tokens: bool = false;
        /// Column of question ids for the predictions; without it, questions are numbered.
        id: Option<String> = None;
        /// Column that holds the question.
        question: String = "question".to_owned();
        /// Column that holds the context of a question.
        context: String = "context".to_owned();
        /// Column that holds the answers of a question: `{text: [...], answer_start: [...]}`.
        answers: String = "answers".to_owned();
        /// Tokens that two windows of a long context share.
        doc_stride: u32 = 128, in 0.0..=1_048_576.0;
        /// Allow questions without an answer, as in SQuAD 2.0.
        version_2_with_negative: bool = false;
        /// Starts, ends and answers to consider for each question.
        n_best_size: u32 = 20, in 1.0..=1000.0;
        /// Tokens of the longest answer.
        max_answer_length: u32 = 30, in 1.0..=1_048_576.0;
        /// Margin by which the score of "no answer" must exceed that of the best answer.
        null_score_diff_threshold: f64 = 0.0;
        /// Column that holds the text to read, for seq2seq-lm.
        source: String = "source".to_owned();
        /// Column that holds the text to write, for seq2seq-lm.
        target: String = "target".to_owned();
        /// Language of the source in the column `translation` of `datasets`, which holds a text for
        /// each language, in place of `source`.
        source_lang: Option<String> = None;
        /// Language of the target in the column `translation`, in place of `target`.
        target_lang: Option<String> = None;
        /// Text that each source begins with, such as `summarize: ` of T5.
        source_prefix: Option<String> = None;
        /// Tokens that a source is truncated to, special tokens counted; by default the model's
        /// maximum, at most 1024.
        max_source_length: Option<u32> = None, in 1.0..=1_048_576.0;
        /// Tokens that a target is truncated to, special tokens counted.
        max_target_length: u32 = 128, in 1.0..=1_048_576.0;
        /// Leave padding of targets out of the loss.
        ignore_pad_token_for_loss: bool = true;
        /// Column that holds the messages of a conversation, for sft:
        /// `[{role: user, content: ...}, {role: assistant, content: ...}]`. The model folder's
        /// chat template turns them into text.
        messages: String = "messages".to_owned();
        /// Column that holds the prompt, text or messages, for sft and dpo. For sft, files that have it
        /// also have `completion`; files that have neither it nor `messages` have `text`. For dpo, the
        /// prompt of files without it is what `chosen` and `rejected` begin with.
        prompt: String = "prompt".to_owned();
        /// Column that holds the text or messages behind the prompt, for sft.
        completion: String = "completion".to_owned();
        /// Column that holds the better text or messages behind the prompt, for dpo.
        chosen: String = "chosen".to_owned();
        /// Column that holds the worse text or messages behind the prompt, for dpo.
        rejected: String = "rejected".to_owned();
        /// Compute the loss on the text of the assistant alone, which the chat template marks by
        /// `{% generation %}`, for sft.
        assistant_only_loss: bool = false;
        /// Compute the loss on completions alone and not on their prompts, for sft.
        completion_only_loss: bool = true;
        /// Token that texts end with and that chat templates have as `eos_token`, for sft and dpo; by
        /// default that of `tokenizer_config.json`.
        eos_token: Option<String> = None;
        /// Put several texts into each row of up to `max_length` tokens, for sft.
        packing: bool = false;
        /// Put several texts into each row that is evaluated; by default as `packing`.
        eval_packing: Option<bool> = None;
        /// How texts share rows.
        packing_strategy: PackingStrategy = PackingStrategy::Bfd;
        /// Tokens of the blocks that concatenated texts are cut into, for language models; by
        /// default the model's maximum, at most 1024.
        block_size: Option<u32> = None, in 2.0..=1_048_576.0;
        /// Make each text a row of its own, for masked language models.
        line_by_line: bool = false;
        /// Share of the tokens that are masked, for masked language models.
        mlm_probability: f64 = 0.15, in (Bound::Excluded(0.0), Bound::Included(1.0));
        /// Mask all tokens of a word together.
        whole_word_mask: bool = false;
        /// Tokens that a row is truncated to, special tokens counted; by default the model's
        /// maximum, but 384 for question answering and at most 1024 for sft and dpo. For seq2seq-lm there are `max_source_length`
        /// and `max_target_length`.
        max_length: Option<u32> = None, in 1.0..=1_048_576.0;
        /// Pad all rows to `max_length` (sources and targets to theirs): one program of each kind instead of one per length.
        pad_to_max_length: bool = false;
        /// Pad rows to a multiple of this many tokens.
        pad_to_multiple_of: Option<u32> = None, in 1.0..=1_048_576.0;
        /// Changes to the columns of all files before they are read.
        columns: Columns;
    }
}

spelled! {
    /// The meaning of a list of labels.
    pub enum LabelFormat {
        /// The classes that apply.
        Classes = "classes",
        /// For each class a 1 if it applies, else a 0.
        OneHot = "one_hot",
    }
}

spelled! {
    /// How texts share rows.
    pub enum PackingStrategy {
        /// Whole texts, each in the row with the least room that is enough for it (best fit
        /// decreasing). Positions begin anew with each text, and no text sees another.
        Bfd = "bfd",
        /// Texts end to end, cut into rows. Texts of a row see each other.
        Wrapped = "wrapped",
    }
}
