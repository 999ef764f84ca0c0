//! Renders the state of the app, as a pure function.

mod bars;
mod cores;
mod job;
mod jobs;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};
use traind_proto::v1::JobState;
use traind_wording::counted;

use super::app::{App, Mode};

pub(super) fn draw(frame: &mut Frame<'_>, app: &App) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(header(app), head);
    frame.render_widget(footer(app), foot);
    match job_in_detail(&app.mode) {
        Some(id) => job::draw(frame, body, app, id),
        None => overview(frame, body, app),
    }
}

/// The job whose details are shown, also behind the question whether to cancel it.
fn job_in_detail(mode: &Mode) -> Option<&str> {
    match mode {
        Mode::Job(id) => Some(id),
        Mode::Confirm(_, back) => job_in_detail(back),
        Mode::Overview | Mode::Filter => None,
    }
}

/// Cores get the height that they need, up to half of the screen.
fn overview(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let wanted = cores::height(area.width, app.cores.len());
    let height = wanted.min(area.height / 2).max(2);
    let [top, bottom] =
        Layout::vertical([Constraint::Length(height), Constraint::Min(0)]).areas(area);
    cores::draw(frame, top, &app.cores, app.tflops);
    jobs::draw(frame, bottom, app);
}

fn header(app: &App) -> Line<'static> {
    let own = || app.cores.iter().filter(|core| core.host.is_empty());
    let held = own().filter(|core| !core.job_id.is_empty()).count();
    let count = |state| app.jobs.iter().filter(|job| job.state() == state).count();
    let mut spans = vec![
        Span::from(" traind ").bold().reversed(),
        Span::from(format!(
            " {held} of {} held   {} running   {} waiting ",
            counted(own().count(), "core"),
            count(JobState::Running),
            count(JobState::Pending)
        )),
    ];
    if let Some(error) = &app.error {
        spans.push(Span::styled(format!(" {error} "), Style::new().fg(Color::Red).bold()));
    }
    Line::from(spans)
}

fn footer(app: &App) -> Line<'static> {
    let keys: &[(&str, &str)] = match &app.mode {
        Mode::Overview => &[
            ("q", "quit"),
            ("↑↓", "select"),
            ("⏎", "open"),
            ("s", "sort"),
            ("/", "filter"),
            ("c", "cancel"),
            ("t", "TFLOP/s"),
        ],
        Mode::Filter => &[("⏎", "apply"), ("esc", "clear")],
        Mode::Job(_) => &[("esc", "back"), ("c", "cancel")],
        Mode::Confirm(id, _) => return question(app, id),
    };
    let mut spans = Vec::new();
    for (key, meaning) in keys {
        spans.push(Span::from(format!(" {key} ")).reversed());
        spans.push(Span::from(format!(" {meaning}  ")));
    }
    Line::from(spans)
}

fn question(app: &App, id: &str) -> Line<'static> {
    let name = app.job(id).map(|job| job.name.clone()).unwrap_or_default();
    let text = format!(" cancel {name} ({id})?  y: yes, any other key: no ");
    Line::from(Span::styled(text, Style::new().fg(Color::Black).bg(Color::Yellow)))
}

/// Shows a centered line of text in an otherwise empty area.
fn placeholder(frame: &mut Frame<'_>, area: Rect, text: &'static str) {
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(text).dim().centered(), area);
}

fn state_color(state: JobState) -> Color {
    match state {
        JobState::Running => Color::Green,
        JobState::Starting | JobState::Cancelling => Color::Yellow,
        JobState::Pending => Color::Cyan,
        JobState::Failed => Color::Red,
        _ => Color::DarkGray,
    }
}
