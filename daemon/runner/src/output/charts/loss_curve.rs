//! `loss_curve.svg`: training and evaluation loss by step.

use std::path::Path;

use plotters::prelude::*;

use super::{DrawError, save};
use crate::error::RunResult;
use crate::output::LogEntry;

const SIZE: (u32, u32) = (800, 480);

/// Pairs of step and loss, ascending by step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LossCurve {
    train: Vec<(f64, f64)>,
    validation: Vec<(f64, f64)>,
}

impl LossCurve {
    /// Collects the losses of a log history.
    pub(crate) fn of(log_history: &[LogEntry]) -> LossCurve {
        let series = |key: &str| {
            let point =
                |entry: &LogEntry| Some((entry.get("step")?.as_f64()?, entry.get(key)?.as_f64()?));
            log_history.iter().filter_map(point).collect()
        };
        LossCurve { train: series("loss"), validation: series("eval_loss") }
    }

    fn points(&self) -> impl Iterator<Item = &(f64, f64)> + Clone {
        self.train.iter().chain(&self.validation)
    }
}

/// Draws the curve, unless it has no points.
pub(crate) fn draw(folder: &Path, curve: &LossCurve) -> RunResult<()> {
    if curve.points().next().is_none() {
        return Ok(());
    }
    save(&folder.join("loss_curve.svg"), |svg| render(svg, curve))
}

fn render(svg: &mut String, curve: &LossCurve) -> Result<(), DrawError> {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let steps = curve.points().map(|(step, _)| *step).fold(1.0, f64::max);
    let losses = curve.points().map(|(_, loss)| *loss);
    let (low, high) =
        (losses.clone().fold(0.0, f64::min), losses.fold(f64::MIN_POSITIVE, f64::max));
    let mut chart = ChartBuilder::on(&root)
        .margin(16)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .caption("Loss", ("sans-serif", 20))
        .build_cartesian_2d(0.0..steps, low..high * 1.05)?;
    chart.configure_mesh().x_desc("step").y_desc("loss").draw()?;
    for (name, color, points) in
        [("train", BLUE, &curve.train), ("validation", RED, &curve.validation)]
    {
        chart
            .draw_series(LineSeries::new(points.iter().copied(), &color))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
        // A line of a single point is invisible.
        chart.draw_series(points.iter().map(|point| Circle::new(*point, 2, color.filled())))?;
    }
    chart.configure_series_labels().border_style(BLACK).background_style(WHITE).draw()?;
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_logged_loss_is_a_point() {
        let entry = |key: &str, loss: f64, step: u64| {
            LogEntry::from([(key.to_owned(), json!(loss)), ("step".to_owned(), json!(step))])
        };
        let history = [entry("loss", 2.0, 1), entry("eval_loss", 1.5, 2), entry("loss", 1.0, 2)];
        let curve = LossCurve::of(&history);
        assert_eq!(curve.train, [(1.0, 2.0), (2.0, 1.0)]);
        assert_eq!(curve.validation, [(2.0, 1.5)]);
        let folder = tempfile::tempdir().unwrap();
        draw(folder.path(), &curve).unwrap();
        let svg = std::fs::read_to_string(folder.path().join("loss_curve.svg")).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 3, "{svg}");
        for words in ["Loss", "step", "train", "validation"] {
            assert!(svg.contains(words), "{words}");
        }
    }
}
