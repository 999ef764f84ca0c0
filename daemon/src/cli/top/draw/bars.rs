//! Bars and curves of block characters, which all terminals support.

const EIGHTHS_ACROSS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
const EIGHTHS_UP: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Renders a bar of `width` characters, filled to `share`, 0 to 1.
pub(super) fn bar(share: f64, width: usize) -> String {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let eighths = (share * (width * 8) as f64).round() as usize;
    let mut text = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        text.push(EIGHTHS_ACROSS[eighths % 8]);
    }
    let missing = width - text.chars().count();
    text.extend(std::iter::repeat_n('·', missing));
    text
}

/// Renders a curve of `width` characters, each the mean of its points.
pub(super) fn curve(points: &[(f64, f64)], width: usize) -> String {
    let values: Vec<f64> = points.iter().map(|(_, y)| *y).filter(|y| y.is_finite()).collect();
    let places = values.len().min(width);
    let mean = |place: usize| {
        let part = &values[place * values.len() / places..(place + 1) * values.len() / places];
        part.iter().sum::<f64>() / part.len() as f64
    };
    let means: Vec<f64> = (0..places).map(mean).collect();
    let low = means.iter().copied().fold(f64::INFINITY, f64::min);
    let high = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let level = |value: &f64| match high - low {
        spread if spread > 0.0 => (((value - low) / spread) * 7.0).round() as usize,
        _ => 0,
    };
    means.iter().map(|value| EIGHTHS_UP[level(value).min(7)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_the_requested_width() {
        assert_eq!(bar(0.0, 4), "····");
        assert_eq!(bar(1.0, 4), "████");
        assert_eq!(bar(0.625, 4), "██▌·");
        assert_eq!([bar(7.0, 2), bar(-1.0, 2), bar(f64::NAN, 2)], ["██", "··", "··"]);
    }

    #[test]
    fn curves_show_means() {
        let points = |values: &[f64]| values.iter().map(|y| (0.0, *y)).collect::<Vec<_>>();
        assert_eq!(curve(&points(&[7.0, 0.0]), 8), "█▁");
        assert_eq!(curve(&points(&[4.0, 4.0, 2.0, 2.0, 0.0, 0.0]), 3), "█▅▁");
        assert_eq!(curve(&points(&[3.0, 3.0]), 8), "▁▁");
        assert_eq!(curve(&points(&[f64::NAN]), 8), "");
    }
}
