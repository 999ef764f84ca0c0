//! An entry of `data.train`, `data.validation` and `data.test` that is more than a path.

use crate::schema::columns::Columns;
use crate::schema::layout::{DataLayout, RowFields};
use crate::schema::objectives::embedding::EmbeddingLoss;
use crate::schema::objectives::set_loss::LossArgs;
use crate::section::section;
use crate::values::{Mapping, Paths};

section! {
    /// One of several sets of rows.
    pub struct DataSet {
        /// Files of the set, as in a list without further keys: a path, a glob, a URL, or a list of
        /// them.
        path: Paths;
        /// Split to read, as `load_dataset` reads it: `train`, `train[:10%]`, `train[100:200]`,
        /// `train+validation`. Plain files have the one split `train`.
        split: Option<String> = None;
        /// Layout of the rows; defaults to `data.format`.
        format: Option<DataLayout> = None;
        /// Changes to the columns, besides those of `data.columns`.
        columns: Columns;
        /// Columns of the layout; defaults to `data.fields`.
        fields: Option<RowFields> = None;
        /// Column of messages; defaults to `data.messages`.
        messages: Option<String> = None;
        /// Roles and their names in the data; defaults to `data.roles`.
        roles: Mapping<Vec<String>> = Mapping::default();
        /// Fields of messages and their names in the data; defaults to
        /// `data.message_property_mappings`.
        message_property_mappings: Mapping<String> = Mapping::default();
        /// Columns of texts to embed, for embedding; defaults to `data.texts`, or else to all columns of the
        /// set's files but that of labels. This key and the next two need `data.mixing: proportional` or
        /// `round_robin`.
        texts: Vec<String> = Vec::new();
        /// Loss of the rows, for embedding; defaults to `embedding.loss`.
        loss: Option<EmbeddingLoss> = None;
        /// Settings of the loss.
        loss_args: LossArgs;
        /// Probability of the set relative to the others, where sets are interleaved.
        weight: Option<f64> = None, in 0.0..;
        /// Number of rows to read at most, the first ones.
        limit: Option<u64> = None, in 1.0..;
        /// Configuration of a data set on the hub; defaults to `data.dataset_config_name`.
        dataset_config_name: Option<String> = None;
        /// Branch, tag or commit of a data set on the hub; defaults to `data.revision`.
        revision: Option<String> = None;
    }
}
