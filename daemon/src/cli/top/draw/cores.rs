//! The cores, as many beside each other as fit: a bar of utilization each, with phase, memory
//! and job while there are few, with its number alone when there are many.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use traind_proto::v1::{Core, Phase};

use super::bars::bar;
use super::nothing;
use crate::interfaces::text;

const WIDE: usize = 76;
const NARROW: usize = 19;
/// More cores than these are shown without their jobs' names.
const WIDE_CORES_MAX: usize = 16;

/// Lines that the cores take on a screen so wide, with the one below them.
pub(super) fn height(width: u16, cores: usize) -> u16 {
    cores.div_ceil(columns(width, cores)).max(1) as u16 + 1
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, cores: &[Core], tflops: bool) {
    if cores.is_empty() {
        return nothing(frame, area, "no reading of the cores yet");
    }
    let columns = columns(area.width, cores.len());
    let rows = cores.len().div_ceil(columns);
    let cell = usize::from(area.width) / columns;
    let lines = (0..rows).map(|row| {
        // Down first, as neuron-top and htop number them.
        let in_row = (0..columns).filter_map(|column| cores.get(column * rows + row));
        Line::from(
            in_row
                .flat_map(|core| show(core, cell, is_wide(cores.len()), tflops))
                .collect::<Vec<_>>(),
        )
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}

fn is_wide(cores: usize) -> bool {
    cores <= WIDE_CORES_MAX
}

fn columns(width: u16, cores: usize) -> usize {
    let cell = if is_wide(cores) { WIDE } else { NARROW };
    (usize::from(width) / cell).clamp(1, cores.max(1))
}

fn show(core: &Core, width: usize, wide: bool, tflops: bool) -> Vec<Span<'static>> {
    let share = utilization(core).unwrap_or(0.0) / 100.0;
    let color = color(core);
    let bar_width = if wide { 20 } else { 8 };
    let figure = match (&core.usage, utilization(core)) {
        (Some(usage), _) if tflops => format!("{:>5.2}T", usage.tflops),
        (_, Some(percent)) => format!("{percent:>3.0} %"),
        (_, None) => "    -".to_owned(),
    };
    let mut spans = vec![
        Span::from(format!("{:>3} ", core.core)),
        Span::styled(bar(share, bar_width), Style::new().fg(color)),
        Span::from(format!(" {figure}")),
    ];
    if wide {
        spans.extend(details(core));
    }
    let used: usize = spans.iter().map(Span::width).sum();
    spans.push(Span::from(" ".repeat(width.saturating_sub(used))));
    spans
}

/// By its job's runner, or else by its driver, who also sees those that are no jobs of ours.
fn utilization(core: &Core) -> Option<f64> {
    let told = core.usage.as_ref().map(|usage| usage.utilization_percent_1s);
    told.or_else(|| core.figures.as_ref()?.utilization_percent)
}

fn details(core: &Core) -> Vec<Span<'static>> {
    let Some(usage) = &core.usage else {
        let text = if core.job_id.is_empty() {
            "  free".to_owned()
        } else {
            format!("  {}", core.job_name)
        };
        return vec![Span::styled(text, Style::new().fg(Color::DarkGray))];
    };
    vec![
        Span::from(format!("  {:>10}  ", text::bytes(usage.memory_used_bytes))),
        Span::styled(format!("{:<10}", text::phase(usage.phase())), Style::new().fg(color(core))),
        Span::from(format!(" {}", core.job_name.chars().take(20).collect::<String>())),
    ]
}

fn color(core: &Core) -> Color {
    let Some(usage) = &core.usage else { return Color::DarkGray };
    match usage.phase() {
        Phase::Compute => Color::Green,
        Phase::Collective => Color::Blue,
        Phase::Input | Phase::Fetch => Color::Red,
        Phase::Compile | Phase::Checkpoint => Color::Yellow,
        Phase::Evaluate => Color::Cyan,
        Phase::Dispatch => Color::Green,
        Phase::Idle | Phase::Unspecified => Color::DarkGray,
    }
}
