//! The command line: a file for each command, and its entry here.

mod act_as;
mod address;
mod adopt;
mod audit;
mod backup;
mod become_user;
mod cancel;
mod completions;
mod confined;
mod connect;
mod convert;
mod convert_weights;
mod cores;
mod data;
mod demo;
mod doctor;
mod drain;
mod dry_run;
mod embed;
mod embedder;
mod endings;
mod exit;
mod finite;
mod fork;
mod free_cores;
mod gc;
mod generate;
mod generator;
mod get;
mod init;
mod job_file;
mod launch;
mod logs;
mod ls;
mod manual;
mod mine;
mod misnamed;
mod niceness;
mod notify;
mod plan;
mod planner;
mod plugins;
mod preparer;
mod profile;
mod programs;
mod progress;
mod restore;
mod runner_command;
mod samples;
mod scratch;
mod serve;
mod shares;
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
use runner_command::Interrupted;
use show::failure;

/// The most I/O events that are handled before the kernel is polled again.
const IO_EVENTS_MAX: usize = 64;

/// Trains Hugging Face models on this host's NeuronCores, GPUs or CPU cores.
#[derive(Parser)]
#[command(name = "traind", version, propagate_version = true, after_help = exit::HELP)]
struct Cli {
    #[command(flatten, next_help_heading = "Connection options")]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options of all commands.
#[derive(clap::Args, Clone)]
pub(crate) struct Global {
    /// The daemon's socket [default: in $XDG_RUNTIME_DIR/traind, the state folder, or /run/traind]
    #[arg(long, global = true, env = "TRAIND_SOCKET", value_name = "PATH")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    remote: remote::Remote,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Demo),
    Serve(Box<serve::Serve>),
    Submit(submit::Submit),
    Fork(fork::Fork),
    Adopt(adopt::Adopt),
    Init(init::Init),
    Convert(convert::Convert),
    ConvertWeights(convert_weights::ConvertWeights),
    Embed(embed::Embed),
    Mine(mine::Mine),
    Generate(generate::Generate),
    Data(data::Data),
    Plan(plan::Plan),
    Ls(ls::Ls),
    Get(get::Get),
    Logs(logs::Logs),
    Watch(watch::Watch),
    Cancel(cancel::Cancel),
    Samples(samples::Samples),
    Programs(programs::Programs),
    Profile(profile::ProfileCommand),
    Cores(cores::Cores),
    Shares(shares::Shares),
    Top(top::Top),
    Web(web::Web),
    Drain(drain::Drain),
    Doctor(doctor::Doctor),
    Backup(backup::Backup),
    Gc(gc::Gc),
    Audit(audit::Audit),
    Restore(restore::Restore),
    Plugins(plugins::Plugins),
    Token(token::Token),
    Completions(completions::Completions),
    #[command(hide = true)]
    Manual(manual::Manual),
    #[command(hide = true)]
    Launch(launch::Launch),
    #[command(hide = true)]
    Generator(generator::Generator),
    #[command(hide = true)]
    Preparer(preparer::Preparer),
    #[command(hide = true)]
    Notify(notify::Notify),
    #[command(hide = true)]
    Planner(planner::Planner),
    #[command(hide = true)]
    ActAs(act_as::ActAs),
}

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    exit_on_failed_output();
    let parsed = Cli::try_parse().map_err(misnamed::with_tip);
    let Cli { global, command } = parsed.unwrap_or_else(|error| error.exit());
    let result = match command {
        // These need no runtime, since they execute another program.
        Command::Launch(launch) => launch.run(),
        Command::Notify(notify) => notify.run(),
        Command::Planner(planner) => planner.run(),
        Command::Generator(generator) => generator.run(),
        Command::Preparer(preparer) => preparer.run(),
        Command::ActAs(act_as) => act_as.run(),
        command => run(command, global),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(error) => match error.downcast_ref::<Interrupted>() {
            Some(interrupted) => ExitCode::from(interrupted.code()),
            None => {
                failure::print(&error);
                Exit::Failed.into()
            }
        },
    }
}

/// Exits where standard output cannot be written: quietly when its reader has exited, as `head` does,
/// else with an error, as on a full disk.
fn exit_on_failed_output() {
    const FAILED: &str = "failed printing to stdout: ";
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let message = info.payload().downcast_ref::<String>();
        let Some(problem) = message.and_then(|message| message.strip_prefix(FAILED)) else {
            return report(info);
        };
        let code = match problem.starts_with("Broken pipe") {
            true => exit::SIGPIPE,
            false => {
                failure::print(&anyhow::anyhow!("write to standard output: {problem}"));
                exit::FAILED.into()
            }
        };
        #[expect(clippy::disallowed_methods, reason = "the panic must not continue")]
        std::process::exit(code);
    }));
}

/// Handles few events at a time, so that requests are completed in the order of their arrival.
fn runtime() -> io::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.enable_all().max_io_events_per_tick(IO_EVENTS_MAX).build()
}

fn run(command: Command, global: Global) -> anyhow::Result<Exit> {
    runtime()?.block_on(async move {
        match command {
            Command::Demo(demo) => demo.run().await,
            Command::Serve(serve) => serve.run(global).await,
            Command::Init(init) => init.run(),
            Command::Convert(convert) => convert.run(),
            Command::ConvertWeights(convert) => convert.run().await,
            Command::Embed(embed) => embed.run(global).await,
            Command::Mine(mine) => mine.run(global).await,
            Command::Data(data) => data.run().await,
            Command::Generate(generate) => generate.run(global).await,
            Command::Submit(submit) => submit.run(global).await,
            Command::Fork(fork) => fork.run(global).await,
            Command::Adopt(adopt) => adopt.run(global).await,
            Command::Plan(plan) => plan.run(global).await,
            Command::Ls(ls) => ls.run(global).await,
            Command::Get(get) => get.run(global).await,
            Command::Logs(logs) => logs.run(global).await,
            Command::Watch(watch) => watch.run(global).await,
            Command::Cancel(cancel) => cancel.run(global).await,
            Command::Samples(samples) => samples.run(global).await,
            Command::Programs(programs) => programs.run(global).await,
            Command::Profile(profile) => profile.run(global).await,
            Command::Cores(cores) => cores.run(global).await,
            Command::Shares(shares) => shares.run(global).await,
            Command::Top(top) => top.run(global).await,
            Command::Web(web) => web.run(global).await,
            Command::Drain(drain) => drain.run(global).await,
            Command::Doctor(doctor) => doctor.run(global).await,
            Command::Backup(backup) => backup.run().await,
            Command::Gc(gc) => gc.run(global).await,
            Command::Audit(audit) => audit.run(global).await,
            Command::Restore(restore) => restore.run(),
            Command::Plugins(plugins) => plugins.run(global).await,
            Command::Token(token) => token.run(global).await,
            Command::Completions(completions) => completions.run(),
            Command::Manual(manual) => manual.run(),
            Command::Launch(launch) => launch.run(),
            Command::Notify(notify) => notify.run(),
            Command::Planner(planner) => planner.run(),
            Command::Generator(generator) => generator.run(),
            Command::Preparer(preparer) => preparer.run(),
            Command::ActAs(act_as) => act_as.run(),
        }
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent_and_every_command_is_described() {
        super::Cli::command().debug_assert();
        for command in super::Cli::command().get_subcommands().filter(|it| !it.is_hide_set()) {
            assert!(command.get_about().is_some(), "{} has no description", command.get_name());
        }
    }

    #[test]
    fn help_separates_a_commands_own_options_from_groups_of_options() {
        let mut cli = super::Cli::command();
        cli.build();
        for (command, option, heading) in [
            ("logs", "follow", None),
            ("logs", "socket", Some("Connection options")),
            ("logs", "token_file", Some("Connection options")),
            ("serve", "on_sigterm", None),
            ("serve", "request_timeout", Some("Limits on callers")),
            ("serve", "listen", Some("Network options")),
            ("serve", "notify_states", Some("Notification options")),
            ("serve", "price_per_hour", Some("Prices")),
        ] {
            let found = cli.find_subcommand(command).unwrap();
            let found = found.get_arguments().find(|it| it.get_id() == option).unwrap();
            assert_eq!(found.get_help_heading(), heading, "{command} {option}");
        }
    }
}
