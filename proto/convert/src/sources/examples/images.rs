//! Arguments of `run_image_classification`.

use super::Arguments;
use crate::draft::Draft;
use crate::rule::{Rule, Table};

const PROCESSOR: &str =
    "the processor is the model's; put preprocessor_config.json into the model folder";

pub(super) const ARGUMENTS: Table = &[
    ("train_dir", Rule::Field("data.train")),
    ("validation_dir", Rule::Field("data.validation")),
    ("train_val_split", Rule::Own),
    ("image_column_name", Rule::Field("data.image")),
    ("label_column_name", Rule::Field("data.label")),
    ("image_processor_name", Rule::Refused(PROCESSOR)),
    ("feature_extractor_name", Rule::Refused(PROCESSOR)),
];

/// The script's default of `model_name_or_path`.
const MODEL: &str = "google/vit-base-patch16-224-in21k";
/// The script's default of `train_val_split`.
const EVALUATED_SHARE: f64 = 0.15;

pub(super) fn read(arguments: &Arguments, draft: &mut Draft) {
    draft.imply("model.name_or_path", MODEL);
    if draft.get("data.validation").is_some() {
        return;
    }
    let key = "train_val_split";
    let share = arguments.number(key).unwrap_or(EVALUATED_SHARE);
    draft.set("data.validation_split", share.into(), key);
}
