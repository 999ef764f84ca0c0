//! Charts of the output folder, as SVG, which needs neither a font nor a library to draw.

mod confusion_matrix;
mod loss_curve;

use std::path::Path;

pub(crate) use confusion_matrix::draw as confusion_matrix;
pub(crate) use loss_curve::{LossCurve, draw as loss_curve};

use super::{failed, write};
use crate::error::RunResult;

/// The backend's error. It writes into memory, so it does not fail in practice.
type DrawError = Box<dyn std::error::Error + Send + Sync>;

/// Writes the SVG that `draw` appends.
fn save(path: &Path, draw: impl FnOnce(&mut String) -> Result<(), DrawError>) -> RunResult<()> {
    let mut svg = String::new();
    draw(&mut svg).map_err(|error| failed("draw", path)(std::io::Error::other(error)))?;
    write(path, svg.as_bytes())
}
