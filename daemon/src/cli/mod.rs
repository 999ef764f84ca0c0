//! The command line: one file for each verb, and its line here.

mod cancel;
mod completions;
mod connect;
mod convert;
mod cores;
mod doctor;
mod drain;
mod exit;
mod get;
mod init;
mod launch;
mod listen;
mod logs;
mod ls;
mod plan;
mod planner;
mod plugins;
mod samples;
mod serve;
mod show;
mod submit;
mod token;
mod top;
mod watch;
mod web;

use std::io;
use std::panic;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::runtime::Runtime;

use connect::remote;
use exit::Exit;
use show::failure;

/// Sockets that are looked after before the kernel is asked for more.
const IO_EVENTS_MAX: usize = 64;

/// Trains Hugging Face models on this host's NeuronCores, GPUs or CPU cores.
#[derive(Parser)]
#[command(name = "traind", version, propagate_version = true, after_help = exit::HELP)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

/// What every verb can be told.
#[derive(clap::Args, Clone)]
pub(crate) struct Global {
    /// The daemon's socket [default: in $XDG_RUNTIME_DIR/traind, the state folder, or /run/traind]
    #[arg(long, global = true, env = "TRAIND_SOCKET", value_name = "PATH")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    remote: remote::Remote,
}

#[derive(Subcommand)]
enum Verb {
    Serve(Box<serve::Serve>),
    Submit(submit::Submit),
    Init(init::Init),
    Convert(convert::Convert),
    Plan(plan::Plan),
    Ls(ls::Ls),
    Get(get::Get),
    Logs(logs::Logs),
    Watch(watch::Watch),
    Cancel(cancel::Cancel),
    Samples(samples::Samples),
    Cores(cores::Cores),
    Top(top::Top),
    Web(web::Web),
    Drain(drain::Drain),
    Doctor(doctor::Doctor),
    Plugins(plugins::Plugins),
    Token(token::Token),
    Completions(completions::Completions),
    #[command(hide = true)]
    Launch(launch::Launch),
    #[command(hide = true)]
    Planner(planner::Planner),
}

/// Runs the verb that the arguments name.
pub fn main() -> ExitCode {
    leave_with_the_reader();
    let Cli { global, verb } = Cli::parse();
    let result = match verb {
        // No runtime: it becomes another program.
        Verb::Launch(launch) => launch.run(),
        Verb::Planner(planner) => planner.run(),
        verb => run(verb, global),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            failure::print(&error);
            Exit::Failed.into()
        }
    }
}

/// Whoever reads what is printed may leave, as `head` does: then so does the program, and quietly.
fn leave_with_the_reader() {
    const BROKEN_PIPE: &str = "failed printing to stdout: Broken pipe";
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let message = info.payload().downcast_ref::<String>();
        if message.is_some_and(|message| message.starts_with(BROKEN_PIPE)) {
            std::process::exit(exit::SIGPIPE);
        }
        report(info);
    }));
}

/// Takes little at a time from the kernel, where what came first waits in front: what is begun
/// with is done before more is.
fn runtime() -> io::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.enable_all().max_io_events_per_tick(IO_EVENTS_MAX).build()
}

fn run(verb: Verb, global: Global) -> anyhow::Result<Exit> {
    runtime()?.block_on(async move {
        match verb {
            Verb::Serve(serve) => serve.run(global).await,
            Verb::Init(init) => init.run(),
            Verb::Convert(convert) => convert.run(),
            Verb::Submit(submit) => submit.run(global).await,
            Verb::Plan(plan) => plan.run(global).await,
            Verb::Ls(ls) => ls.run(global).await,
            Verb::Get(get) => get.run(global).await,
            Verb::Logs(logs) => logs.run(global).await,
            Verb::Watch(watch) => watch.run(global).await,
            Verb::Cancel(cancel) => cancel.run(global).await,
            Verb::Samples(samples) => samples.run(global).await,
            Verb::Cores(cores) => cores.run(global).await,
            Verb::Top(top) => top.run(global).await,
            Verb::Web(web) => web.run(global).await,
            Verb::Drain(drain) => drain.run(global).await,
            Verb::Doctor(doctor) => doctor.run(global).await,
            Verb::Plugins(plugins) => plugins.run(global).await,
            Verb::Token(token) => token.run(global).await,
            Verb::Completions(completions) => completions.run(),
            Verb::Launch(launch) => launch.run(),
            Verb::Planner(planner) => planner.run(),
        }
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent_and_every_verb_says_what_it_does() {
        super::Cli::command().debug_assert();
        for verb in super::Cli::command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
            assert!(verb.get_about().is_some(), "{} has no description", verb.get_name());
        }
    }
}
