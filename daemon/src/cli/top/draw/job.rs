//! Renders the details of one job: progress, metrics, the loss curve and the newest events.

use std::collections::BTreeMap;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Borders, Chart, Dataset, Gauge, GraphType, Paragraph};
use traind_proto::v1::{CoreUsage, Job, Step, StepTime};

use super::{placeholder, state_color};
use crate::cli::top::app::{App, History, progress};
use crate::interfaces::text;
use crate::interfaces::text::events;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, id: &str) {
    let Some(job) = app.job(id) else {
        return placeholder(frame, area, "this job is no longer among the newest");
    };
    let history = app.histories.get(id);
    let cores = app.cores.iter().filter(|core| core.job_id == id);
    let usages: Vec<CoreUsage> = cores.filter_map(|core| core.usage).collect();
    let facts = facts(job, &usages);
    let [top, gauge, middle, bottom] = Layout::vertical([
        Constraint::Length(facts.len() as u16),
        Constraint::Length(1),
        Constraint::Percentage(50),
        Constraint::Min(3),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(facts), top);
    frame.render_widget(progress_bar(job), gauge);
    let parent = app.parent(id).and_then(|parent| app.histories.get(&parent.job_id));
    losses(frame, middle, [parent, history]);
    events(frame, bottom, history);
}

fn facts(job: &Job, usages: &[CoreUsage]) -> Vec<Line<'static>> {
    let state = text::state(job.state());
    let mut lines = vec![Line::from(vec![
        Span::from(job.name.clone()).bold(),
        Span::from(format!("  {}  ", job.id)),
        Span::styled(state, Style::new().fg(state_color(job.state())).bold()),
        Span::from(format!("  {}  by {}", text::cores(job), job.owner)),
    ])];
    if let Some(parent) = &job.parent {
        let line = format!("continues {} from step {}, in gray", parent.job_id, parent.step);
        lines.push(Line::from(line));
    }
    if !job.waiting_reason.is_empty() {
        lines.push(Line::from(format!("waiting: {}", job.waiting_reason)));
    }
    if let Some(failure) = &job.failure {
        let text = format!("{}: {}", failure.reason, failure.message);
        lines.extend(text.lines().take(4).map(|line| Line::from(line.to_owned()).red()));
    }
    lines.extend(job.progress.iter().flat_map(metrics));
    lines.extend(job.progress.as_ref().and_then(|step| step.time.as_ref()).map(breakdown));
    lines.extend(stages(usages));
    lines.extend(communication(usages));
    if !job.metrics.is_empty() {
        lines.push(Line::from(events::metrics(&job.metrics)));
    }
    lines
}

fn metrics(step: &Step) -> [Line<'static>; 2] {
    let learning = format!(
        "epoch {:.2}  loss {}  learning rate {}  gradient norm {}",
        step.epoch,
        text::number(step.loss),
        text::number(step.learning_rate),
        text::number(step.grad_norm),
    );
    let speed = format!(
        "{:.1} samples/s  {:.0} tokens/s  {} left",
        step.samples_per_second,
        step.tokens_per_second,
        text::duration(step.eta_seconds)
    );
    [learning, speed].map(Line::from)
}

/// The parts of a step's time.
fn breakdown(time: &StepTime) -> Line<'static> {
    let parts = [
        ("input", time.input_wait_seconds),
        ("dispatch", time.dispatch_seconds),
        ("compute", time.compute_seconds),
        ("read back", time.read_back_seconds),
    ];
    let total: f64 = parts.iter().map(|(_, seconds)| seconds).sum();
    let share = |seconds: f64| if total > 0.0 { 100.0 * seconds / total } else { 0.0 };
    let texts = parts.map(|(name, seconds)| format!("{name} {:.0} %", share(seconds)));
    let beside = match time.decode_seconds {
        0.0 => String::new(),
        seconds => format!("; beside it, images were decoded for {:.0} %", share(seconds)),
    };
    Line::from(format!("step time: {}{beside}", texts.join(", ")))
}

/// The share of time that each pipeline stage waits for others.
fn stages(usages: &[CoreUsage]) -> Option<Line<'static>> {
    let bubbles: BTreeMap<u32, f64> = usages
        .iter()
        .filter_map(|usage| usage.stage)
        .map(|it| (it.stage, it.bubble_percent))
        .collect();
    let texts = bubbles.iter().map(|(stage, percent)| format!("stage {stage} {percent:.0} %"));
    let texts = texts.collect::<Vec<_>>().join(", ");
    (!texts.is_empty()).then(|| Line::from(format!("pipeline bubble: {texts}")))
}

/// The bytes that each core sends to the others, alike on all.
fn communication(usages: &[CoreUsage]) -> Option<Line<'static>> {
    let sent = usages.iter().find_map(|usage| usage.communication)?;
    Some(Line::from(format!("each core sends: {}", text::communication(&sent))))
}

fn progress_bar(job: &Job) -> Gauge<'static> {
    let step = job.progress.clone().unwrap_or_default();
    Gauge::default()
        .ratio(progress(job).unwrap_or_default())
        .label(format!("step {} of {}", step.step, step.max_steps))
        .gauge_style(Style::new().fg(Color::Green).bg(Color::Indexed(236)))
        .use_unicode(true)
}

/// Renders the curves of a job and, behind it, of the one whose checkpoint it started with.
fn losses(frame: &mut Frame<'_>, area: Rect, [parent, history]: [Option<&History>; 2]) {
    let curves = [finite(parent), finite(history)];
    let points = || curves.iter().flatten();
    if points().next().is_none() {
        return placeholder(frame, area, "no loss yet");
    }
    let first = points().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
    let last = points().map(|(x, _)| *x).fold(first + 1.0, f64::max);
    let low = points().map(|(_, y)| *y).fold(f64::INFINITY, f64::min);
    let high = points().map(|(_, y)| *y).fold(f64::NEG_INFINITY, f64::max);
    let steps = [first, last];
    let curve = |(points, color)| {
        let curve = Dataset::default().marker(Marker::Braille).graph_type(GraphType::Line);
        curve.style(Style::new().fg(color)).data(points)
    };
    let colors = [Color::DarkGray, Color::Cyan];
    let curves = curves.iter().map(Vec::as_slice).zip(colors).map(curve).collect();
    let chart = Chart::new(curves)
        .block(Block::new().borders(Borders::TOP).title(" loss "))
        .x_axis(Axis::default().bounds(steps).labels(steps.map(|step| format!("{step:.0}"))))
        .y_axis(
            Axis::default()
                .bounds([low, high.max(low + 1e-9)])
                .labels([low, high].map(text::number)),
        );
    frame.render_widget(chart, area);
}

fn finite(history: Option<&History>) -> Vec<(f64, f64)> {
    let points = history.into_iter().flat_map(|history| &history.losses);
    points.copied().filter(|(_, loss)| loss.is_finite()).collect()
}

/// Renders the events, the newest at the bottom.
fn events(frame: &mut Frame<'_>, area: Rect, history: Option<&History>) {
    let block = Block::new().borders(Borders::TOP).title(" events ");
    let height = usize::from(block.inner(area).height);
    let lines = history.map_or(&[][..], |history| &history.lines);
    let newest = &lines[lines.len().saturating_sub(height)..];
    let text: Vec<Line<'_>> = newest.iter().map(|line| Line::from(line.as_str())).collect();
    frame.render_widget(Paragraph::new(text).block(block), area);
}
