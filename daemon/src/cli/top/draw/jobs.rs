//! Renders the table of jobs.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Text;
use ratatui::widgets::{Block, Borders, Cell, Row, Table, TableState};
use traind_proto::v1::Job;

use super::bars::{bar, curve};
use super::{placeholder, state_color};
use crate::cli::top::app::{App, Mode, progress};
use crate::interfaces::text;
use crate::jobs::one_line::one_line;

const HEADER: [&str; 9] =
    ["ID", "NAME", "STATE", "CORES", "PROGRESS", "LOSS", "CURVE", "SAMPLES/S", "LEFT"];
const WIDTHS: [Constraint; 9] = [
    Constraint::Length(10),
    Constraint::Min(10),
    Constraint::Length(10),
    Constraint::Length(5),
    Constraint::Length(BAR + 5),
    Constraint::Length(8),
    Constraint::Length(CURVE),
    Constraint::Length(9),
    Constraint::Length(8),
];
const BAR: u16 = 12;
const CURVE: u16 = 20;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let jobs = app.shown();
    let block = Block::new().borders(Borders::TOP).title(title(app));
    if jobs.is_empty() {
        let inner = block.inner(area);
        frame.render_widget(block, area);
        return placeholder(frame, inner, "no jobs to show");
    }
    let rows = jobs.iter().map(|job| row(app, job));
    let table = Table::new(rows, WIDTHS)
        .header(Row::new(HEADER).bold())
        .row_highlight_style(Style::new().bg(Color::Indexed(238)))
        .block(block);
    let selected = jobs.iter().position(|job| app.selected.as_ref() == Some(&job.id));
    frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(selected));
}

fn title(app: &App) -> String {
    let typing = if app.mode == Mode::Filter { "_" } else { "" };
    match (app.filter.as_str(), typing) {
        ("", "") => format!(" jobs by {} ", app.sort.name()),
        (filter, typing) => format!(" jobs matching {filter:?}{typing} by {} ", app.sort.name()),
    }
}

fn row<'a>(app: &App, job: &'a Job) -> Row<'a> {
    let state = Cell::new(text::state(job.state())).fg(state_color(job.state()));
    let mut cells = vec![
        Cell::new(job.id.as_str()),
        Cell::new(job.name.as_str()),
        state,
        Cell::new(Text::from(job.core_count.to_string())),
    ];
    match (remark(job), &job.progress) {
        (Some(remark), _) => cells.push(Cell::new(remark).column_span(5)),
        (None, Some(step)) => {
            let share = progress(job).unwrap_or_default();
            let losses = app.histories.get(&job.id).map_or(&[][..], |known| &known.losses);
            cells.extend([
                Cell::new(format!("{} {:>3.0}%", bar(share, BAR.into()), share * 100.0)),
                Cell::new(text::number(step.loss)),
                Cell::new(curve(losses, CURVE.into())).fg(Color::Cyan),
                Cell::new(format!("{:.1}", step.samples_per_second)),
            ]);
            if job.end_time.is_none() {
                cells.push(Cell::new(text::duration(step.eta_seconds)));
            }
        }
        (None, None) => {}
    }
    Row::new(cells)
}

/// Why the job waits or failed.
fn remark(job: &Job) -> Option<String> {
    let failure = job.failure.as_ref();
    let failure = failure.map(|it| format!("{}: {}", it.reason, one_line(&it.message)));
    let waits = Some(&job.waiting_reason).filter(|reason| !reason.is_empty()).cloned();
    failure.or(waits)
}
