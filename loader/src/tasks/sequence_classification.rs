//! One text (or pair of texts), one label: a class, with a multi-label column any number of
//! classes, with a regression label a number.

use serde::Serialize;

use super::{Example, Preprocessor, SetContext, row_labels, text_arrays};
use crate::batch::{ArraySpec, Padding};
use crate::error::Result;
use crate::labels::{LabelSpec, Labels};
use crate::source::Row;

/// The columns of a sequence classification job. Without a label rows can only be predicted on.
#[derive(Clone, Debug, Serialize)]
pub struct SequenceClassification {
    /// The column of texts.
    pub text: String,
    /// The column of second texts, if rows are pairs.
    pub text_pair: Option<String>,
    /// The column of labels; None for rows to predict.
    pub label: Option<LabelSpec>,
}

impl Preprocessor for SequenceClassification {
    fn columns(&self) -> Vec<&str> {
        let pair = self.text_pair.as_deref();
        let label = self.label.as_ref().map(|label| label.column.as_str());
        [Some(self.text.as_str()), pair, label].into_iter().flatten().collect()
    }

    fn labels(&self) -> Option<&LabelSpec> {
        self.label.as_ref()
    }

    fn encode(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Vec<Example>> {
        let (text, pair) = self.texts(row)?;
        let outline = outline(row, context)?;
        let encoded = context.tokenizer.encode(text, pair);
        let encoded = encoded.map_err(|problem| row.tokenize_error(problem))?;
        Ok(vec![Example { encoded, ..outline }])
    }

    fn has_outlines(&self) -> bool {
        true
    }

    fn outline(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Vec<Example>> {
        self.texts(row)?;
        Ok(vec![outline(row, context)?])
    }

    fn arrays(&self, labels: &Labels, padding: &Padding) -> Vec<ArraySpec> {
        let mut arrays = text_arrays(padding);
        arrays.extend(row_labels(labels));
        arrays
    }
}

impl SequenceClassification {
    fn texts<'row>(&self, row: &Row<'row>) -> Result<(&'row str, Option<&'row str>)> {
        let pair = self.text_pair.as_deref().map(|column| row.text_or_empty(column)).transpose()?;
        Ok((row.text_or_empty(&self.text)?, pair))
    }
}

/// The example of a row, without its tokens.
fn outline(row: &Row<'_>, context: &SetContext<'_>) -> Result<Example> {
    let label = context.labels.as_ref().map(|labels| labels.read(row)).transpose()?;
    Ok(Example { label, ..Example::default() })
}
