//! What the screen knows, and what a key does to it. Pure: no daemon, no terminal.

use std::collections::HashMap;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Core, Event, Job, JobState};

use crate::interfaces::text;
use crate::interfaces::text::events::describe;

/// Lines kept of a job's events.
const LINES_MAX: usize = 500;
/// Jobs whose events are followed without being opened: a connection has 128 streams, and more
/// would keep the list of jobs itself waiting.
const FOLLOWED_MAX: usize = 64;
/// Points kept of a job's loss.
const POINTS_MAX: usize = 4096;

/// What the feed tells.
#[derive(Debug)]
pub(super) enum News {
    Cores(Vec<Core>),
    /// Those that have not ended and the newest that have.
    Jobs(Vec<Job>),
    Event(String, Box<Event>),
    /// The daemon is away, or refused what was asked of it.
    Trouble(String),
}

/// What a key asks the rest of the program for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    Quit,
    /// Tell all events of a job from now on.
    Follow(String),
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

/// What the keys mean at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Overview,
    /// Letters go into the filter.
    Filter,
    /// One job in full.
    Job(String),
    /// "Cancel this job?", and where to go back to.
    Confirm(String, Box<Mode>),
}

/// What is known of a job besides its latest figures.
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
    pub trouble: Option<String>,
    /// Show what cores achieve in place of how busy they are.
    pub tflops: bool,
}

impl App {
    /// Takes in what is new. A job that runs is followed from its first event on, which is
    /// how its whole curve comes to be shown.
    pub(super) fn learn(&mut self, news: News) -> Action {
        match news {
            News::Cores(cores) => {
                self.cores = cores;
                self.trouble = None;
            }
            News::Jobs(jobs) => return self.learn_jobs(jobs),
            News::Event(job_id, event) => {
                self.histories.entry(job_id).or_default().add(&event);
            }
            News::Trouble(text) => self.trouble = Some(text),
        }
        Action::Nothing
    }

    fn learn_jobs(&mut self, jobs: Vec<Job>) -> Action {
        self.jobs = jobs;
        let known = |id: &String| self.jobs.iter().any(|job| job.id == *id);
        self.histories.retain(|id, _| known(id));
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

    fn follow(&mut self, job_id: String) -> Action {
        self.histories.insert(job_id.clone(), History::default());
        Action::Follow(job_id)
    }

    /// The jobs that the filter leaves, in order.
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
            // An attempt that resumes does some steps again: what it says of them counts.
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

/// Every second point goes: the shape of the curve stays.
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

    /// Jobs come newest first, and stay so where they are equal. What is not known goes last.
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

/// Those at work first, then those that wait, then those that have ended.
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

/// Done share, 0 to 1.
pub(super) fn progress(job: &Job) -> Option<f64> {
    let step = job.progress.as_ref().filter(|step| step.max_steps > 0)?;
    Some((step.step as f64 / step.max_steps as f64).clamp(0.0, 1.0))
}
