//! The state of the screen, and the effects of keys. Independent of the daemon and the terminal.

use std::collections::{HashMap, HashSet};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Core, Event, Job, JobState, Parent};

use crate::interfaces::text;
use crate::interfaces::text::events::describe;

/// The most lines of a job's events that are kept.
const LINES_MAX: usize = 500;
/// The most jobs whose events are followed without being opened. A connection has 128 streams, which the list of jobs
/// needs, too.
const FOLLOWED_MAX: usize = 64;
/// The most points of a job's loss that are kept.
const POINTS_MAX: usize = 4096;

/// An update from the feed.
#[derive(Debug)]
pub(super) enum Update {
    Cores(Vec<Core>),
    /// All unfinished jobs, and the newest finished ones.
    Jobs(Vec<Job>),
    Event(String, Box<Event>),
    /// The daemon is away or returned an error.
    Error(String),
}

/// A request of a key to the rest of the program.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    Quit,
    /// Send all events of these jobs.
    Follow(Vec<String>),
    Cancel(String),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Newest,
    Name,
    State,
    Progress,
    Loss,
    Eta,
}

/// The screen's mode, which determines the meaning of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Overview,
    /// Text input for the filter.
    Filter,
    /// The details of one job.
    Job(String),
    /// Asks whether to cancel a job, and then returns to another mode.
    Confirm(String, Box<Mode>),
}

/// The history of a job.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Step and loss.
    pub losses: Vec<(f64, f64)>,
    pub lines: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct App {
    pub cores: Vec<Core>,
    pub jobs: Vec<Job>,
    pub histories: HashMap<String, History>,
    pub mode: Mode,
    pub sort: Sort,
    pub filter: String,
    /// Id of the job under the cursor.
    pub selected: Option<String>,
    pub error: Option<String>,
    /// Shows TFLOP/s of the cores instead of their utilization.
    pub tflops: bool,
}

impl App {
    /// Applies an update. Running jobs are followed from their first event on, to show the whole
    /// curve.
    pub(super) fn update(&mut self, update: Update) -> Action {
        match update {
            Update::Cores(cores) => {
                self.cores = cores;
                self.error = None;
            }
            Update::Jobs(jobs) => return self.update_jobs(jobs),
            Update::Event(job_id, event) => {
                self.histories.entry(job_id).or_default().add(&event);
            }
            Update::Error(text) => self.error = Some(text),
        }
        Action::Nothing
    }

    fn update_jobs(&mut self, jobs: Vec<Job>) -> Action {
        self.jobs = jobs;
        let known = |id: &String| self.jobs.iter().any(|job| job.id == *id);
        let parents = self.jobs.iter().filter_map(|job| Some(&job.parent.as_ref()?.job_id));
        let parents: HashSet<&String> = parents.collect();
        self.histories.retain(|id, _| known(id) || parents.contains(id));
        if !self.selected.as_ref().is_some_and(known) {
            self.selected = self.shown().first().map(|job| job.id.clone());
        }
        let unfollowed =
            |job: &&Job| job.state() == JobState::Running && !self.histories.contains_key(&job.id);
        if self.histories.len() >= FOLLOWED_MAX {
            return Action::Nothing;
        }
        let next = self.jobs.iter().find(unfollowed).map(|job| job.id.clone());
        next.map_or(Action::Nothing, |id| self.follow(id))
    }

    /// Follows a job, and the one whose checkpoint it started with.
    fn follow(&mut self, job_id: String) -> Action {
        let parent = self.parent(&job_id).map(|parent| parent.job_id.clone());
        let wanted = [job_id].into_iter().chain(parent);
        let unfollowed: Vec<String> =
            wanted.filter(|id| !self.histories.contains_key(id)).collect();
        for id in &unfollowed {
            self.histories.insert(id.clone(), History::default());
        }
        Action::Follow(unfollowed)
    }

    /// The checkpoint of another job that a job started with.
    pub(super) fn parent(&self, id: &str) -> Option<&Parent> {
        self.job(id)?.parent.as_ref()
    }

    /// The jobs that match the filter, sorted.
    pub(super) fn shown(&self) -> Vec<&Job> {
        let wanted = self.filter.to_lowercase();
        let matches = |job: &&Job| {
            let state = text::state(job.state());
            [&job.id, &job.name, &job.owner, &state]
                .iter()
                .any(|text| text.to_lowercase().contains(&wanted))
        };
        let mut jobs: Vec<&Job> = self.jobs.iter().filter(matches).collect();
        self.sort.apply(&mut jobs);
        jobs
    }

    pub(super) fn job(&self, id: &str) -> Option<&Job> {
        self.jobs.iter().find(|job| job.id == id)
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Action {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Action::Quit;
        }
        match self.mode.clone() {
            Mode::Overview => self.press_overview(key.code),
            Mode::Filter => self.press_filter(key.code),
            Mode::Job(id) => self.press_job(key.code, id),
            Mode::Confirm(id, back) => {
                self.mode = *back;
                if key.code == KeyCode::Char('y') { Action::Cancel(id) } else { Action::Nothing }
            }
        }
    }

    fn press_overview(&mut self, key: KeyCode) -> Action {
        match key {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Esc => self.set_filter(String::new()),
            KeyCode::Char('c') => self.ask_to_cancel(),
            KeyCode::Char('t') => self.tflops = !self.tflops,
            KeyCode::Enter => {
                if let Some(id) = self.selected.clone() {
                    self.mode = Mode::Job(id.clone());
                    if !self.histories.contains_key(&id) {
                        return self.follow(id);
                    }
                }
            }
            _ => {}
        }
        Action::Nothing
    }

    fn press_filter(&mut self, key: KeyCode) -> Action {
        match key {
            KeyCode::Enter => self.mode = Mode::Overview,
            KeyCode::Esc => {
                self.set_filter(String::new());
                self.mode = Mode::Overview;
            }
            KeyCode::Backspace => {
                let mut filter = self.filter.clone();
                filter.pop();
                self.set_filter(filter);
            }
            KeyCode::Char(letter) => self.set_filter(format!("{}{letter}", self.filter)),
            _ => {}
        }
        Action::Nothing
    }

    fn press_job(&mut self, key: KeyCode, id: String) -> Action {
        match key {
            KeyCode::Char('q') | KeyCode::Esc | KeyCode::Enter => self.mode = Mode::Overview,
            KeyCode::Char('c') => {
                self.selected = Some(id);
                self.ask_to_cancel();
            }
            _ => {}
        }
        Action::Nothing
    }

    fn ask_to_cancel(&mut self) {
        let job = self.selected.as_ref().and_then(|id| self.job(id));
        if let Some(job) = job.filter(|job| job.end_time.is_none()) {
            self.mode = Mode::Confirm(job.id.clone(), Box::new(self.mode.clone()));
        }
    }

    fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        let shown = self.shown();
        let still = shown.iter().any(|job| self.selected.as_ref() == Some(&job.id));
        if !still {
            self.selected = shown.first().map(|job| job.id.clone());
        }
    }

    fn move_by(&mut self, places: isize) {
        let shown = self.shown();
        let at = shown.iter().position(|job| self.selected.as_ref() == Some(&job.id));
        let to = at.unwrap_or(0).saturating_add_signed(places).min(shown.len().saturating_sub(1));
        self.selected = shown.get(to).map(|job| job.id.clone());
    }
}

impl History {
    fn add(&mut self, event: &Event) {
        if let Some(Kind::Step(step)) = &event.kind {
            // A resumed attempt repeats some steps, which replace the earlier ones.
            let before = self.losses.partition_point(|(known, _)| *known < step.step as f64);
            self.losses.truncate(before);
            self.losses.push((step.step as f64, step.loss));
            if self.losses.len() > POINTS_MAX {
                thin_out(&mut self.losses);
            }
        }
        self.lines.extend(describe(event).lines().map(str::to_owned));
        let surplus = self.lines.len().saturating_sub(LINES_MAX);
        self.lines.drain(..surplus);
    }
}

/// Removes every second point, which keeps the shape of the curve.
fn thin_out(points: &mut Vec<(f64, f64)>) {
    let mut index = 0;
    points.retain(|_| {
        index += 1;
        index % 2 == 1
    });
}

impl Sort {
    pub(super) fn name(self) -> &'static str {
        match self {
            Sort::Newest => "newest",
            Sort::Name => "name",
            Sort::State => "state",
            Sort::Progress => "progress",
            Sort::Loss => "loss",
            Sort::Eta => "time left",
        }
    }

    fn next(self) -> Sort {
        match self {
            Sort::Newest => Sort::Name,
            Sort::Name => Sort::State,
            Sort::State => Sort::Progress,
            Sort::Progress => Sort::Loss,
            Sort::Loss => Sort::Eta,
            Sort::Eta => Sort::Newest,
        }
    }

    /// Sorts jobs stably; they come newest first. Jobs without a value are last.
    fn apply(self, jobs: &mut [&Job]) {
        let by = |jobs: &mut [&Job], key: fn(&Job) -> Option<f64>| {
            jobs.sort_by(|a, b| {
                let (a, b) = (key(a).unwrap_or(f64::INFINITY), key(b).unwrap_or(f64::INFINITY));
                a.total_cmp(&b)
            });
        };
        match self {
            Sort::Newest => {}
            Sort::Name => jobs.sort_by(|a, b| a.name.cmp(&b.name)),
            Sort::State => jobs.sort_by_key(|job| urgency(job.state())),
            Sort::Progress => by(jobs, |job| progress(job).map(|done| -done)),
            Sort::Loss => by(jobs, |job| Some(job.progress.as_ref()?.loss)),
            Sort::Eta => by(jobs, |job| {
                Some(job.progress.as_ref().filter(|_| job.end_time.is_none())?.eta_seconds)
            }),
        }
    }
}

/// Order of states: active jobs first, then waiting ones, then finished ones.
fn urgency(state: JobState) -> u8 {
    match state {
        JobState::Running => 0,
        JobState::Cancelling => 1,
        JobState::Starting => 2,
        JobState::Pending => 3,
        JobState::Failed => 4,
        JobState::Completed => 5,
        JobState::Cancelled | JobState::Unspecified => 6,
    }
}

/// The completed share of the steps, 0 to 1.
pub(super) fn progress(job: &Job) -> Option<f64> {
    let step = job.progress.as_ref().filter(|step| step.max_steps > 0)?;
    Some((step.step as f64 / step.max_steps as f64).clamp(0.0, 1.0))
}
