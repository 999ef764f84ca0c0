//! Arguments of `run_image_classification`.

use super::Arguments;
use crate::draft::Draft;

/// The script's default of `train_val_split`.
const EVALUATED_SHARE: f64 = 0.15;

pub(super) fn read(arguments: &Arguments, draft: &mut Draft) {
    if draft.get("data.validation").is_some() {
        return;
    }
    let key = "train_val_split";
    let share = arguments.number(key).unwrap_or(EVALUATED_SHARE);
    draft.set("data.validation_split", share.into(), key);
}
