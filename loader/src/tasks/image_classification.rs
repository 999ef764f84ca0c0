//! One image, one label: a class, with a multi-label column any number of classes, with a regression
//! label a number.
//!
//! A set keeps images as they are encoded. Each is decoded once when the set is prepared, so that a
//! damaged one is an error before training, and again for each batch.

use serde::Serialize;

use super::{Example, Preprocessor, SetContext, row_labels, sample_weights};
use crate::batch::{ArraySpec, Padding, ROWS, fixed};
use crate::error::Result;
use crate::image::{ImageProcessor, decode};
use crate::labels::{LabelSpec, Labels};
use crate::source::Row;
use crate::tokenize::Encoded;

/// Rows that are encoded at a time: their images are in memory.
const ROWS_AT_A_TIME: usize = 64;

/// The columns of an image classification job. Without a label rows can only be predicted on.
#[derive(Clone, Debug, Serialize)]
pub struct ImageClassification {
    /// The column of images, or of their paths.
    pub image: String,
    /// The column of classes; None for rows to predict.
    pub label: Option<LabelSpec>,
    /// The processor, which is applied to each batch, so that a prepared set serves all of them.
    #[serde(skip)]
    pub processor: ImageProcessor,
}

impl Preprocessor for ImageClassification {
    fn columns(&self) -> Vec<&str> {
        let label = self.label.as_ref().map(|label| label.column.as_str());
        [Some(self.image.as_str()), label].into_iter().flatten().collect()
    }

    fn labels(&self) -> Option<&LabelSpec> {
        self.label.as_ref()
    }

    fn image_column(&self) -> Option<&str> {
        Some(&self.image)
    }

    fn image_processor(&self) -> Option<&ImageProcessor> {
        Some(&self.processor)
    }

    fn rows_at_a_time(&self) -> usize {
        ROWS_AT_A_TIME
    }

    /// The row has one token, whose place is the number of the image.
    fn encode(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Vec<Example>> {
        let image = row.image(&self.image)?;
        decode(&image).map_err(|problem| row.image_error(&self.image, problem))?;
        let label = context.labels.as_ref().map(|labels| labels.read(row)).transpose()?;
        let encoded = Encoded { input_ids: vec![0], token_type_ids: vec![0], truncated: false };
        Ok(vec![Example { encoded, label, image: Some(image.into_owned()), ..Example::default() }])
    }

    fn arrays(&self, labels: &Labels, _padding: &Padding) -> Vec<ArraySpec> {
        let [height, width] = self.processor.size().map(fixed);
        let sizes = [ROWS, height, width, fixed(crate::image::CHANNELS)];
        let pixels = ArraySpec::u8("pixel_values", &sizes, 0, |row| row.pixels.clone());
        [pixels, sample_weights()].into_iter().chain(row_labels(labels)).collect()
    }
}
