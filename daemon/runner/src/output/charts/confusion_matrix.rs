//! `confusion_matrix.svg`: the counts of each true class by predicted class.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{DrawError, save};
use crate::error::RunResult;
use crate::metrics::ConfusionMatrix;

/// A picture of more classes would be illegible.
const CLASSES_MAX: usize = 40;

const CELL: i32 = 56;
const LABELS: i32 = 140;
const TITLE: i32 = 56;

/// Draws the matrix, with a row for each true class and a column for each predicted one.
pub(crate) fn draw(folder: &Path, matrix: &ConfusionMatrix, labels: &[String]) -> RunResult<()> {
    if labels.is_empty() || labels.len() > CLASSES_MAX {
        return Ok(());
    }
    save(&folder.join("confusion_matrix.svg"), |svg| render(svg, matrix, labels))
}

fn render(svg: &mut String, matrix: &ConfusionMatrix, labels: &[String]) -> Result<(), DrawError> {
    let side = CELL * labels.len() as i32;
    let size = ((LABELS + side + 16) as u32, (TITLE + side + LABELS) as u32);
    let root = SVGBackend::with_string(svg, size).into_drawing_area();
    root.fill(&WHITE)?;
    let text = |size: u32| ("sans-serif", size).into_font().color(&BLACK);
    root.draw_text("Confusion matrix: true by predicted", &text(18), (16, 16))?;
    let right = text(13).pos(Pos::new(HPos::Right, VPos::Center));
    let rotated = ("sans-serif", 13).into_font().transform(FontTransform::Rotate90);
    let below = rotated.color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center));
    for (class, name) in labels.iter().enumerate() {
        let middle = CELL * class as i32 + CELL / 2;
        root.draw_text(name, &right, (LABELS - 8, TITLE + middle))?;
        root.draw_text(name, &below, (LABELS + middle, TITLE + side + 8))?;
    }
    for label in 0..labels.len() {
        let rows: u64 = (0..labels.len()).map(|predicted| matrix.count(label, predicted)).sum();
        for predicted in 0..labels.len() {
            let count = matrix.count(label, predicted);
            let corner = (LABELS + CELL * predicted as i32, TITLE + CELL * label as i32);
            let cell = Cell { corner, count, share: count as f64 / rows.max(1) as f64 };
            cell.draw(&root)?;
        }
    }
    root.present()?;
    Ok(())
}

struct Cell {
    corner: (i32, i32),
    count: u64,
    /// The share of the true class's rows.
    share: f64,
}

impl Cell {
    fn draw<B: DrawingBackend>(
        &self,
        root: &DrawingArea<B, plotters::coord::Shift>,
    ) -> Result<(), DrawError>
    where
        B::ErrorType: 'static,
    {
        let (left, top) = self.corner;
        let frame = [(left, top), (left + CELL, top + CELL)];
        let fade = |channel: u8| (255.0 - (255.0 - f64::from(channel)) * self.share) as u8;
        let color = RGBColor(fade(8), fade(69), fade(148));
        root.draw(&Rectangle::new(frame, color.filled()))?;
        root.draw(&Rectangle::new(frame, RGBColor(200, 200, 200)))?;
        let ink = if self.share > 0.5 { WHITE } else { BLACK };
        let style = ("sans-serif", 13).into_font().color(&ink);
        let style = style.pos(Pos::new(HPos::Center, VPos::Center));
        root.draw_text(&self.count.to_string(), &style, (left + CELL / 2, top + CELL / 2))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_and_name_is_in_the_picture() {
        let mut matrix = ConfusionMatrix::new(2);
        for (label, predicted, count) in [(0, 0, 71), (0, 1, 13), (1, 0, 5), (1, 1, 92)] {
            (0..count).for_each(|_| matrix.add(label, predicted));
        }
        let labels = ["cats & dogs".to_owned(), "fruit".to_owned()];
        let folder = tempfile::tempdir().unwrap();
        draw(folder.path(), &matrix, &labels).unwrap();
        let svg = std::fs::read_to_string(folder.path().join("confusion_matrix.svg")).unwrap();
        for text in ["71", "13", "5", "92", "cats &amp; dogs", "fruit"] {
            assert!(svg.contains(&format!("\n{text}\n")), "{text} is not in {svg}");
        }
        // Without classes there is no picture.
        draw(&folder.path().join("absent"), &matrix, &[]).unwrap();
    }
}
