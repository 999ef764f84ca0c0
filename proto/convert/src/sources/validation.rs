//! Rows that axolotl and LLaMA-Factory set aside to evaluate on.

use serde_json::{Map, Value};

use crate::draft::Draft;
use crate::values::is_off;

/// Reads `key`: a share of the rows up to 1, else their number, of which both tools take the whole part.
pub(crate) fn read(settings: &Map<String, Value>, draft: &mut Draft, key: &str) {
    let Some(size) = settings.get(key).filter(|size| !is_off(size)) else { return };
    match size.as_f64() {
        Some(share) if share > 0.0 && share < 1.0 => {
            draft.set("data.validation_split", size.clone(), key);
        }
        Some(rows) if rows >= 2.0 => {
            draft.set("data.validation_split", (rows as u64).into(), key);
        }
        _ => draft.refuse(key, "give a share of the rows below 1, or a number of at least 2 rows"),
    }
}
