//! Charts of the output folder, as SVG: they need no font and no library to be drawn, and
//! a browser shows them.

mod confusion_matrix;
mod loss_curve;

use std::path::Path;

pub(crate) use confusion_matrix::draw as confusion_matrix;
pub(crate) use loss_curve::{LossCurve, draw as loss_curve};

use super::{failed, write};
use crate::error::RunResult;

/// Why a chart cannot be drawn; the backend writes into memory, so it can.
type DrawError = Box<dyn std::error::Error + Send + Sync>;

/// Writes what `draw` puts into a text.
fn save(path: &Path, draw: impl FnOnce(&mut String) -> Result<(), DrawError>) -> RunResult<()> {
    let mut svg = String::new();
    draw(&mut svg).map_err(|error| failed("draw", path)(std::io::Error::other(error)))?;
    write(path, svg.as_bytes())
}
