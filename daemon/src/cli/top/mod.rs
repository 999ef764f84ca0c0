//! `traind top`: a full-screen view of cores and jobs.
//!
//! `feed` queries the daemon and sends updates, `app` holds the state and handles keys, and `draw`
//! renders it. Only this file accesses the terminal.

mod app;
mod draw;
mod feed;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use anyhow::{Context, bail};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use tokio::sync::mpsc;

use super::Global;
use super::connect::client;
use super::exit::Exit;
use app::{Action, App};
use feed::Feed;

/// How often the thread checks whether the screen was closed.
const KEY_PERIOD: Duration = Duration::from_millis(200);

/// Show cores and jobs on a live screen
#[derive(clap::Args)]
pub(crate) struct Top {}

impl Top {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        let (jobs, cores) = (client::jobs(&global).await?, client::cores(&global).await?);
        if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
            bail!(
                "the screen needs a terminal; `traind cores` and `traind ls` print what it shows"
            );
        }
        let (sender, mut updates) = mpsc::channel(64);
        let feed = Feed::start(jobs, cores, sender);
        let mut terminal = ratatui::try_init().context("set up the terminal")?;
        let result = show(&mut terminal, &feed, &mut updates).await;
        ratatui::restore();
        result.map(|()| Exit::Done)
    }
}

async fn show(
    terminal: &mut DefaultTerminal,
    feed: &Feed,
    updates: &mut mpsc::Receiver<app::Update>,
) -> anyhow::Result<()> {
    let mut app = App::default();
    let mut keys = keys();
    loop {
        terminal.draw(|frame| draw::draw(frame, &app))?;
        let action = tokio::select! {
            Some(update) = updates.recv() => app.update(update),
            event = keys.recv() => match event {
                Some(Event::Key(key)) if key.kind == KeyEventKind::Press => app.press(key),
                Some(_) => Action::Nothing,
                None => return Ok(()),
            },
        };
        match action {
            Action::Nothing => {}
            Action::Quit => return Ok(()),
            Action::Follow(job_ids) => job_ids.into_iter().for_each(|id| feed.follow(id)),
            Action::Cancel(job_id) => feed.cancel(job_id),
        }
    }
}

/// Reads the terminal on a separate thread, which ends when the receiver is dropped.
fn keys() -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        while !sender.is_closed() {
            match event::poll(KEY_PERIOD).and_then(|ready| ready.then(event::read).transpose()) {
                Ok(Some(event)) => drop(sender.blocking_send(event)),
                Ok(None) => {}
                Err(_) => return,
            }
        }
    });
    receiver
}
