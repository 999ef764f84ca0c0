//! Renders the cores in as many columns as fit: a bar of utilization for each, with phase, memory
//! and job if there are few cores.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use traind_proto::v1::{Core, Phase};

use super::bars::bar;
use super::placeholder;
use crate::interfaces::text;

const WIDE: usize = 76;
const NARROW: usize = 19;
/// The most cores that are shown with their jobs.
const WIDE_CORES_MAX: usize = 16;

/// The height of the cores on a screen of `width`, including the line below them.
pub(super) fn height(width: u16, cores: usize) -> u16 {
    cores.div_ceil(columns(width, cores)).max(1) as u16 + 1
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, cores: &[Core], tflops: bool) {
    if cores.is_empty() {
        return placeholder(frame, area, "waiting for the cores");
    }
    let columns = columns(area.width, cores.len());
    let rows = cores.len().div_ceil(columns);
    let cell = usize::from(area.width) / columns;
    let lines = (0..rows).map(|row| {
        // Numbered down the columns, as in neuron-top and htop.
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
    let value = match (&core.usage, utilization(core)) {
        (Some(usage), _) if tflops => format!("{:>5.2}T", usage.tflops),
        (_, Some(percent)) => format!("{percent:>3.0} %"),
        (_, None) => "    -".to_owned(),
    };
    let mut spans = vec![
        Span::from(format!("{:>3} ", core.core)),
        Span::styled(bar(share, bar_width), Style::new().fg(color)),
        Span::from(format!(" {value}")),
    ];
    if wide {
        spans.extend(details(core));
    }
    let used: usize = spans.iter().map(Span::width).sum();
    spans.push(Span::from(" ".repeat(width.saturating_sub(used))));
    spans
}

/// The utilization that the job's runner reports, or else the driver, which includes other processes.
fn utilization(core: &Core) -> Option<f64> {
    let reported = core.usage.as_ref().map(|usage| usage.utilization_percent_1s);
    reported.or_else(|| core.figures.as_ref()?.utilization_percent)
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
        Span::styled(format!("{:<10}", text::activity(usage)), Style::new().fg(color(core))),
        Span::from(format!(" {}", owner(core).chars().take(20).collect::<String>())),
    ]
}

/// The job that holds the core, with the core's host if that is another one.
fn owner(core: &Core) -> String {
    match core.host.as_str() {
        "" => core.job_name.clone(),
        host => format!("{host} {}", core.job_name),
    }
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
