//! `traind top` on a terminal of its own.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::pty::{self, OpenptFlags};
use rustix::termios::{Winsize, tcsetwinsize};
use traind_proto::v1::JobState;

use crate::host::{Host, PATIENCE};
use crate::runner::{STOPS_WHEN_ASKED, WAITS_FOR_GO};

const ROWS: NonZeroU16 = NonZeroU16::new(30).unwrap();
const COLUMNS: NonZeroU16 = NonZeroU16::new(110).unwrap();

/// A pseudo terminal and its screen.
struct Terminal {
    keyboard: File,
    screen: Arc<Mutex<vt100::Parser>>,
    program: Child,
}

impl Terminal {
    fn run(command: &Command) -> Terminal {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let controller = pty::openpt(flags).unwrap();
        pty::grantpt(&controller).unwrap();
        pty::unlockpt(&controller).unwrap();
        let size =
            Winsize { ws_row: ROWS.get(), ws_col: COLUMNS.get(), ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&controller, size).unwrap();
        let name = pty::ptsname(&controller, Vec::new()).unwrap().into_string().unwrap();
        let terminal = File::options().read(true).write(true).open(name).unwrap();
        let stdio = || Stdio::from(terminal.try_clone().unwrap());
        // In a session of its own the terminal is the program's controlling one.
        let mut own_session = Command::new("setsid");
        own_session.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args());
        own_session.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        own_session.env("TERM", "xterm-256color");
        own_session.stdin(stdio()).stdout(stdio()).stderr(stdio());
        let program = own_session.spawn().unwrap();
        let keyboard = File::from(controller);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(ROWS, COLUMNS, 0)));
        let (mut output, painted) = (keyboard.try_clone().unwrap(), screen.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut bytes) {
                painted.lock().unwrap().process(&bytes[..length]);
            }
        });
        Terminal { keyboard, screen, program }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    async fn until(&self, what: &str, holds: impl Fn(&vt100::Screen) -> bool) {
        let start = Instant::now();
        while !holds(self.screen.lock().unwrap().screen()) {
            let contents = self.screen.lock().unwrap().screen().contents();
            assert!(start.elapsed() < PATIENCE, "not {what}:\n{contents}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn until_shows(&self, words: &str) {
        self.until(words, |screen| screen.contents().contains(words)).await;
    }

    /// The exit code, once the program has left the screen as it was.
    async fn end(&mut self) -> Option<i32> {
        self.until("left", |screen| !screen.alternate_screen() && !screen.hide_cursor()).await;
        self.program.wait().unwrap().code()
    }
}

fn top(host: &Host) -> Terminal {
    let mut command = host.traind();
    command.arg("top");
    Terminal::run(&command)
}

#[tokio::test]
async fn jobs_come_up_and_a_job_opens_with_its_events() {
    let host = Host::started(2, WAITS_FOR_GO).await;
    let job = host.submit("first", 1).await;
    host.until(&job.id, |job| job.progress.as_ref().is_some_and(|step| step.step == 20)).await;
    let mut terminal = top(&host);
    terminal.until_shows(&job.id).await;
    terminal.until_shows("1 of 2 cores held").await;
    terminal.press("\r");
    terminal.until_shows("step 20 of 40").await;
    terminal.until_shows("step 17/40").await;
    terminal.press("qq");
    assert_eq!(terminal.end().await, Some(0));
}

#[tokio::test]
async fn a_job_is_cancelled_from_the_screen() {
    let host = Host::started(1, STOPS_WHEN_ASKED).await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Running).await;
    let mut terminal = top(&host);
    terminal.until_shows(&job.id).await;
    terminal.press("c");
    terminal.until_shows("cancel first").await;
    terminal.press("y");
    host.until_state(&job.id, JobState::Cancelled).await;
    terminal.until_shows("cancelled").await;
    terminal.press("q");
    assert_eq!(terminal.end().await, Some(0));
}

#[tokio::test]
async fn without_a_terminal_or_a_daemon_it_says_so() {
    let host = Host::new(1, STOPS_WHEN_ASKED);
    let said = host.cli(&["top"]);
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(!said.status.success() && text.contains("no daemon answers"), "{text}");
}
