//! A program on a pseudo-terminal, and its screen.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::pty::{self, OpenptFlags};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::support::host::PATIENCE;

const ROWS: NonZeroU16 = NonZeroU16::new(30).unwrap();
const COLUMNS: NonZeroU16 = NonZeroU16::new(110).unwrap();

/// A pseudo-terminal and its screen.
pub(crate) struct Terminal {
    keyboard: File,
    screen: Arc<Mutex<vt100::Parser>>,
    program: Child,
}

impl Terminal {
    pub(crate) fn run(command: &Command) -> Terminal {
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
        // In its own session, so that the terminal becomes its controlling terminal.
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

    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&vt100::Screen) -> bool) {
        let start = Instant::now();
        while !holds(self.screen.lock().unwrap().screen()) {
            let contents = self.screen.lock().unwrap().screen().contents();
            assert!(start.elapsed() < PATIENCE, "not {what}:\n{contents}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) async fn until_shows(&self, words: &str) {
        self.until(words, |screen| screen.contents().contains(words)).await;
    }

    /// Waits for a program that does not use the alternate screen.
    pub(crate) async fn exit(&mut self) -> Option<i32> {
        self.program.wait().unwrap().code()
    }

    /// Returns the exit code once the program has restored the screen.
    pub(crate) async fn end(&mut self) -> Option<i32> {
        self.until("left", |screen| !screen.alternate_screen() && !screen.hide_cursor()).await;
        self.program.wait().unwrap().code()
    }
}

/// Kills the program of a failed test.
impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
