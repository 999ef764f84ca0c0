//! The screen on an in-memory terminal: rendering, and the effects of keys.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use traind_proto::v1::event::Kind;
use traind_proto::v1::{
    Communication, Core, CoreUsage, Event, Failure, Job, JobState, Phase, StageUsage, Step,
    StepTime,
};

use super::app::{Action, App, Mode, Update};
use super::draw::draw;

fn core(index: u32, job_name: &str, utilization: f64) -> Core {
    let usage = CoreUsage {
        core: index,
        utilization_percent_1s: utilization,
        memory_used_bytes: 3 << 29,
        phase: Phase::Compute.into(),
        stage: Some(StageUsage { stage: index, stages: 2, bubble_percent: f64::from(10 * index) }),
        communication: Some(Communication { pipeline_bytes_per_second: 3e6, ..Default::default() }),
        ..Default::default()
    };
    Core {
        core: index,
        platform: "neuron".into(),
        job_id: if job_name == "fast" { "a1".into() } else { job_name.into() },
        job_name: job_name.into(),
        usage: (!job_name.is_empty()).then_some(usage),
        ..Default::default()
    }
}

fn step(step: u64, loss: f64) -> Step {
    Step {
        step,
        max_steps: 40,
        epoch: 1.5,
        loss,
        learning_rate: 1e-4,
        grad_norm: 2.0,
        samples_per_second: 312.5,
        tokens_per_second: 9000.0,
        eta_seconds: 95.0,
        time: Some(StepTime {
            input_wait_seconds: 0.1,
            compute_seconds: 0.3,
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn jobs() -> Vec<Job> {
    let job = |id: &str, name: &str, state: JobState| {
        Job {
            id: id.into(),
            name: name.into(),
            owner: "ann".into(),
            platform: "neuron".into(),
            core_count: 2,
            ..Default::default()
        }
        .with_state(state)
    };
    let waits = Job {
        waiting_reason: "needs 2 neuron cores, 1 is free".into(),
        ..job("c3", "waits", JobState::Pending)
    };
    let slow = Job { progress: Some(step(10, 0.9)), ..job("b2", "slow", JobState::Running) };
    let fast = Job { progress: Some(step(30, 0.3)), ..job("a1", "fast", JobState::Running) };
    let failure = Failure {
        reason: "DATA_ROW_INVALID".into(),
        message: "row 7 has 3 fields".into(),
        ..Default::default()
    };
    let end_time = Some(prost_types::Timestamp::default());
    let failed = Job { failure: Some(failure), end_time, ..job("d4", "failed", JobState::Failed) };
    vec![waits, slow, fast, failed]
}

trait WithState {
    fn with_state(self, state: JobState) -> Self;
}

impl WithState for Job {
    fn with_state(mut self, state: JobState) -> Job {
        self.set_state(state);
        self
    }
}

fn app() -> App {
    let mut app = App::default();
    let cores = vec![core(0, "fast", 87.5), core(1, "fast", 50.0), core(2, "", 0.0)];
    app.update(Update::Cores(cores));
    assert_eq!(app.update(Update::Jobs(jobs())), Action::Follow(vec!["b2".into()]));
    assert_eq!(app.update(Update::Jobs(jobs())), Action::Follow(vec!["a1".into()]));
    assert_eq!(app.update(Update::Jobs(jobs())), Action::Nothing, "all running jobs are followed");
    for at in [10, 20, 30] {
        let event =
            Event { kind: Some(Kind::Step(step(at, 9.0 / at as f64))), ..Default::default() };
        app.update(Update::Event("a1".into(), Box::new(event)));
    }
    app
}

fn screen(app: &App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app)).unwrap();
    let buffer = terminal.backend().buffer();
    let rows = (0..height).map(|y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>());
    rows.map(|row| row.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

fn press(app: &mut App, keys: &[KeyCode]) -> Action {
    let mut action = Action::Nothing;
    for key in keys {
        action = app.press(KeyEvent::new(*key, KeyModifiers::NONE));
    }
    action
}

fn names(app: &App) -> Vec<&str> {
    app.shown().into_iter().map(|job| job.name.as_str()).collect()
}

#[test]
fn the_overview_shows_cores_and_jobs() {
    insta::assert_snapshot!(screen(&app(), 110, 16));
}

#[test]
fn a_jobs_details_show_metrics_curve_and_events() {
    let mut app = app();
    press(&mut app, &[KeyCode::Down, KeyCode::Down, KeyCode::Enter]);
    assert_eq!(app.mode, Mode::Job("a1".into()));
    insta::assert_snapshot!(screen(&app, 110, 22));
}

#[test]
fn many_cores_fit_on_a_small_terminal() {
    let mut app = app();
    app.update(Update::Cores((0..64).map(|index| core(index, "big", f64::from(index))).collect()));
    let screen = screen(&app, 80, 36);
    for index in 0..64 {
        assert!(screen.contains(&format!(" {index} %")), "core {index} is not in\n{screen}");
    }
    assert!(screen.contains("slow"), "jobs remain visible:\n{screen}");
}

#[test]
fn t_shows_tflops() {
    let mut app = app();
    let mut cores = vec![core(0, "fast", 87.5), core(1, "", 0.0)];
    cores[0].usage.as_mut().unwrap().tflops = 41.5;
    let figures =
        traind_proto::v1::DeviceFigures { utilization_percent: Some(12.0), ..Default::default() };
    cores[1].figures = Some(figures);
    app.update(Update::Cores(cores));
    let busy = screen(&app, 110, 10);
    assert!(busy.contains(" 88 %") && busy.contains(" 12 %"), "other processes count:\n{busy}");
    press(&mut app, &[KeyCode::Char('t')]);
    assert!(screen(&app, 110, 10).contains("41.50T"));
}

#[test]
fn the_number_of_followed_jobs_is_limited() {
    let mut app = App::default();
    let running = |index: u32| Job {
        id: format!("j{index}"),
        state: JobState::Running.into(),
        ..Default::default()
    };
    let jobs: Vec<Job> = (0..1000).map(running).collect();
    let follows = std::iter::repeat_with(|| app.update(Update::Jobs(jobs.clone())))
        .take_while(|action| *action != Action::Nothing);
    assert_eq!(follows.count(), 64);
    app.selected = Some("j999".to_owned());
    assert_eq!(
        press(&mut app, &[KeyCode::Enter]),
        Action::Follow(vec!["j999".into()]),
        "an opened job is followed"
    );
    screen(&app, 80, 24);
}

#[test]
fn any_terminal_size_renders() {
    let mut app = app();
    for (width, height) in [(1, 1), (10, 3), (40, 5), (300, 100)] {
        screen(&app, width, height);
    }
    press(&mut app, &[KeyCode::Enter]);
    for (width, height) in [(1, 1), (10, 3), (40, 5), (300, 100)] {
        screen(&app, width, height);
    }
}

#[test]
fn s_cycles_through_the_sort_orders() {
    let mut app = app();
    let mut orders = Vec::new();
    for _ in 0..7 {
        orders.push((app.sort.name(), names(&app).join(" ")));
        press(&mut app, &[KeyCode::Char('s')]);
    }
    let expect = [
        ("newest", "waits slow fast failed"),
        ("name", "failed fast slow waits"),
        ("state", "slow fast waits failed"),
        ("progress", "fast slow waits failed"),
        ("loss", "fast slow waits failed"),
        ("time left", "slow fast waits failed"),
        ("newest", "waits slow fast failed"),
    ];
    assert_eq!(orders, expect.map(|(name, order)| (name, order.to_owned())));
}

#[test]
fn a_filter_shows_matches_and_moves_the_cursor_to_one() {
    let mut app = app();
    press(&mut app, &[KeyCode::Char('/'), KeyCode::Char('F'), KeyCode::Char('A')]);
    assert_eq!(names(&app), ["fast", "failed"]);
    assert_eq!(app.selected.as_deref(), Some("a1"));
    press(&mut app, &[KeyCode::Backspace, KeyCode::Enter]);
    assert_eq!((names(&app), app.mode.clone()), (vec!["fast", "failed"], Mode::Overview));
    press(&mut app, &[KeyCode::Esc]);
    assert_eq!(names(&app).len(), 4);
}

#[test]
fn cancelling_asks_for_confirmation() {
    let mut app = app();
    press(&mut app, &[KeyCode::Down, KeyCode::Char('c')]);
    assert!(screen(&app, 80, 20).contains("cancel slow (b2)?"));
    assert_eq!(press(&mut app, &[KeyCode::Char('n')]), Action::Nothing);
    assert_eq!(app.mode, Mode::Overview);
    let action = press(&mut app, &[KeyCode::Char('c'), KeyCode::Char('y')]);
    assert_eq!(action, Action::Cancel("b2".into()));
    press(&mut app, &[KeyCode::Down, KeyCode::Down, KeyCode::Char('c')]);
    assert_eq!(app.mode, Mode::Overview, "a finished job cannot be cancelled");
}

#[test]
fn q_and_control_c_quit() {
    assert_eq!(press(&mut app(), &[KeyCode::Char('q')]), Action::Quit);
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(app().press(control_c), Action::Quit);
    let mut app = app();
    assert_eq!(press(&mut app, &[KeyCode::Enter, KeyCode::Char('q')]), Action::Nothing);
    assert_eq!(app.mode, Mode::Overview, "q first closes the details");
}

#[test]
fn an_error_is_shown_until_the_daemon_answers() {
    let mut app = app();
    app.update(Update::Error("the daemon is stopping".into()));
    assert!(screen(&app, 110, 10).contains("the daemon is stopping"));
    app.update(Update::Cores(Vec::new()));
    assert!(!screen(&app, 110, 10).contains("stopping"));
}
