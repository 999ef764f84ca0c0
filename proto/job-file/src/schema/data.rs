//! `data`: the rows to train and evaluate on.

use crate::section::section;
use crate::values::{DataFiles, LabelMap};

section! {
    /// The rows to train and evaluate on. Files are CSV, JSONL or Parquet, told
    /// apart by the ends of their names.
    pub struct Data {
        /// Files to train on.
        train: DataFiles;
        /// Files to evaluate on.
        validation: Option<DataFiles> = None;
        /// Files to evaluate on once, when training is over.
        test: Option<DataFiles> = None;
        /// Column that holds the text.
        text: String = "text".to_owned();
        /// Column that holds the second text of a pair.
        text_pair: Option<String> = None;
        /// Column that holds the label.
        label: String = "label".to_owned();
        /// Class of each label: `{1: negative, 2: negative, 3: neutral}`. Classes are
        /// numbered in the order they first appear in, unless their names are the
        /// numbers from 0 on. Left out, labels are class numbers from 0 on.
        label_map: Option<LabelMap> = None;
        /// Tokens that a row is truncated to, special tokens counted; the most that
        /// the model can take where it is left out.
        max_length: Option<u32> = None, in 1.0..=1_048_576.0;
    }
}
