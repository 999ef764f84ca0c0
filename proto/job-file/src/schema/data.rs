//! `data`: the rows to train and evaluate on, and how a task reads them.

use std::ops::Bound;

use crate::schema::columns::Columns;
use crate::section::section;
use crate::spelled::spelled;
use crate::values::{DataFiles, LabelMap};

section! {
    /// The rows to train and evaluate on. Files are CSV, JSON, JSONL, Parquet or Arrow,
    /// or plain `.txt` with a row a line in the column `text`, told apart by the ends of their
    /// names, text also with `.gz` or `.zst`; a folder is one
    /// that `save_to_disk` of `datasets` wrote. `s3://BUCKET/KEY` is an object of a bucket, by
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
        /// Share of the training rows that is kept aside to evaluate on, drawn by
        /// `train.data_seed`, in place of `validation`.
        validation_split: Option<f64> = None, in (Bound::Excluded(0.0), Bound::Excluded(1.0));
        /// Files to evaluate on once, when training is over, and to predict on.
        test: Option<DataFiles> = None;
        /// Configuration of the data sets of the hub; their default or only one, where it is
        /// left out.
        dataset_config_name: Option<String> = None;
        /// Branch, tag or commit of the data sets of the hub; `main` where it is left out.
        revision: Option<String> = None;
        /// Between the fields of `.csv` files, one character; `,` where it is left out.
        delimiter: Option<String> = None;
        /// Keep the line breaks of `.txt` files, and with them blank lines. Left out, causal
        /// language models keep them and others do not, as in transformers' examples.
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
        /// numbers from 0 on. Left out, labels are class numbers from 0 on.
        label_map: Option<LabelMap> = None;
        /// What the list of labels of a row holds, for multi-label classification: the classes
        /// that apply, or for each class a 0 or 1. Left out, lists of floats, of booleans and of
        /// as many 0 and 1 as there are classes are `one_hot`.
        label_format: Option<LabelFormat> = None;
        /// Column that holds the list of words, for token classification.
        tokens: String = "tokens".to_owned();
        /// Column that holds the list of labels, one a word, for token classification.
        labels: String = "labels".to_owned();
        /// Label every token of a word and not only its first.
        label_all_tokens: bool = false;
        /// Column that names a question in the predictions; they are numbered where it is
        /// left out.
        id: Option<String> = None;
        /// Column that holds the question.
        question: String = "question".to_owned();
        /// Column that holds the context of a question.
        context: String = "context".to_owned();
        /// Column that holds the answers of a question: `{text: [...], answer_start: [...]}`.
        answers: String = "answers".to_owned();
        /// Tokens that two windows of a long context share.
        doc_stride: u32 = 128, in 0.0..=1_048_576.0;
        /// Whether questions may have no answer, as in SQuAD 2.0.
        version_2_with_negative: bool = false;
        /// Starts, ends and answers that are looked at for each question.
        n_best_size: u32 = 20, in 1.0..=1000.0;
        /// Tokens of the longest answer.
        max_answer_length: u32 = 30, in 1.0..=1_048_576.0;
        /// By how much the score of "no answer" must exceed the best answer's to be given.
        null_score_diff_threshold: f64 = 0.0;
        /// Tokens of a block that texts are put end to end and cut into, for language
        /// models; what the model can take, at most 1024, where it is left out.
        block_size: Option<u32> = None, in 2.0..=1_048_576.0;
        /// Make each text a row of its own, for masked language models.
        line_by_line: bool = false;
        /// Share of the tokens that are masked, for masked language models.
        mlm_probability: f64 = 0.15, in (Bound::Excluded(0.0), Bound::Included(1.0));
        /// Mask all tokens of a word together.
        whole_word_mask: bool = false;
        /// Tokens that a row is truncated to, special tokens counted; the most that
        /// the model can take where it is left out, but 384 for question answering.
        max_length: Option<u32> = None, in 1.0..=1_048_576.0;
        /// Pad all rows to `max_length`: one program a step kind instead of one a length.
        pad_to_max_length: bool = false;
        /// Pad rows to a multiple of this many tokens.
        pad_to_multiple_of: Option<u32> = None, in 1.0..=1_048_576.0;
        /// What is done with the columns of all files before they are read.
        columns: Columns;
    }
}

spelled! {
    /// What a list of labels holds.
    pub enum LabelFormat {
        /// The classes that apply.
        Classes = "classes",
        /// For each class 1 where it applies, else 0.
        OneHot = "one_hot",
    }
}
