//! `traind cores`.

use std::io::IsTerminal;

use anyhow::{bail, ensure};
use traind_proto::v1;
use traind_proto::v1::cores_client::CoresClient;
use traind_wording::counted;

use super::Global;
use super::connect::client;
use super::connect::client::Connection;
use super::exit::Exit;
use super::show::core_view::{CoreView, TestView, outcome};
use super::show::list::{ListFormat, print_json};
use super::show::table::print_table;
use crate::interfaces::text::{activity, age, bytes, communication, printable, stage};

/// Show the cores of this host, and of other hosts that jobs use, with their utilization
///
/// A sick core, whose device counted new hardware errors or which answered wrong to a test, is fenced and gets no jobs
/// until it is returned. So is a host of a cluster on which two users or jobs reported a failed device.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Cores {
    #[command(subcommand)]
    action: Option<Action>,
    /// Update every second
    #[arg(long, short)]
    watch: bool,
    /// Output format; with --watch, one list per reading
    #[arg(long, short, value_enum, default_value_t)]
    output: ListFormat,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Remove the fences of cores or hosts, so that jobs use them again
    Return {
        /// The cores, as `traind cores` prints them or by their numbers
        #[arg(value_name = "CORE")]
        cores: Vec<String>,
        /// Name of a fenced host of a cluster; may be repeated
        #[arg(long, value_name = "NAME")]
        host: Vec<String>,
    },
    /// Test idle cores by programs whose results are known, and fence those that answer wrong
    ///
    /// Jobs do not start on these cores meanwhile. Exits with 1 if a core did not pass.
    Test {
        /// The cores, as `traind cores` prints them or by their numbers, fenced ones included [default: all that no job
        /// uses]
        #[arg(value_name = "CORE")]
        cores: Vec<String>,
        /// Output format
        #[arg(long, short, value_enum, default_value_t)]
        output: ListFormat,
    },
}

impl Cores {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        if let Some(Action::Return { cores, host }) = &self.action {
            let is_named = !cores.is_empty() || !host.is_empty();
            ensure!(is_named, "name the cores to return, or a host of a cluster by --host");
        }
        let mut cores = client::cores(&global).await?;
        match self.action {
            Some(Action::Return { cores: wanted, host: hosts }) => {
                let wanted = numbers(&mut cores, &wanted).await?;
                cores.return_cores(v1::ReturnCoresRequest { cores: wanted, hosts }).await?;
                return Ok(Exit::Done);
            }
            Some(Action::Test { cores: wanted, output }) => {
                let wanted = numbers(&mut cores, &wanted).await?;
                let request = v1::TestCoresRequest { cores: wanted };
                let mut tests = cores.test_cores(request).await?.into_inner();
                let mut results = Vec::new();
                while let Some(result) = tests.message().await? {
                    results.push(result);
                }
                return print_tests(&results, output);
            }
            None => {}
        }
        if !self.watch {
            let reply = cores.list_cores(v1::ListCoresRequest::default()).await?.into_inner();
            self.print(&reply.cores)?;
            if let ListFormat::Table = self.output {
                print_fenced_hosts(&reply.fenced_hosts);
            }
            return Ok(Exit::Done);
        }
        let request = v1::WatchCoresRequest::default();
        let mut readings = cores.watch_cores(request).await?.into_inner();
        loop {
            let reading = tokio::select! {
                reading = readings.message() => reading?,
                interrupted = tokio::signal::ctrl_c() => return interrupted.map(|()| Exit::Done).map_err(Into::into),
            };
            let Some(reading) = reading else { return Ok(Exit::Done) };
            if let ListFormat::Table = self.output {
                clear_screen();
            }
            self.print(&reading.cores)?;
        }
    }

    fn print(&self, cores: &[v1::Core]) -> anyhow::Result<()> {
        match self.output {
            ListFormat::Table => print_cores(cores),
            ListFormat::Json => print_json(cores.iter().map(CoreView::from))?,
        }
        Ok(())
    }
}

/// The numbers of cores that are named.
async fn numbers(
    client: &mut CoresClient<Connection>,
    names: &[String],
) -> anyhow::Result<Vec<u32>> {
    let all = match names.iter().all(|name| name.parse::<u32>().is_ok()) {
        true => Vec::new(),
        false => client.list_cores(v1::ListCoresRequest::default()).await?.into_inner().cores,
    };
    names.iter().map(|name| number(&all, name)).collect()
}

/// The number of a core by its number itself, or by its name among `all`.
fn number(all: &[v1::Core], name: &str) -> anyhow::Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    match all.iter().find(|core| core_name(core) == name) {
        Some(v1::Core { core, host, .. }) if host.is_empty() => Ok(*core),
        Some(v1::Core { host, .. }) => bail!(
            "{name} is a core of another host: name those of this host, or return all of {host} by --host"
        ),
        None => bail!("there is no core {name}; `traind cores` lists them"),
    }
}

/// The name of a core, with that of its host unless it is the daemon's.
fn core_name(core: &v1::Core) -> String {
    match core.host.as_str() {
        "" => format!("{}:{}", core.platform, core.core),
        host => format!("{}/{}:{}", printable(host), core.platform, core.core),
    }
}

/// Prints the hosts of clusters that get no jobs, if there are any.
fn print_fenced_hosts(hosts: &[v1::FencedHost]) {
    if hosts.is_empty() {
        return;
    }
    println!();
    let row = |it: &v1::FencedHost| {
        let why = it.fence.as_ref().map(fence).unwrap_or_default();
        vec![printable(&it.host), it.engine.clone(), why]
    };
    print_table(&["HOST", "CLUSTER", "FENCED"], &hosts.iter().map(row).collect::<Vec<_>>());
}

/// Prints how cores answered.
fn print_tests(results: &[v1::TestCoresResponse], output: ListFormat) -> anyhow::Result<Exit> {
    let of = |result: &v1::TestCoresResponse| result.test.clone().unwrap_or_default();
    match output {
        ListFormat::Json => print_json(results.iter().map(TestView::from))?,
        ListFormat::Table if results.is_empty() => println!("no core is idle"),
        ListFormat::Table => {
            let row = |result: &v1::TestCoresResponse| {
                let (core, test) = (&result.core, of(result));
                let product = known(test.product_seconds, |it| format!("{:.3} ms", it * 1e3));
                vec![core.to_string(), outcome(&test).to_owned(), product, printable(&test.problem)]
            };
            let rows: Vec<Vec<String>> = results.iter().map(row).collect();
            print_table(&["CORE", "TEST", "PRODUCT", "PROBLEM"], &rows);
        }
    }
    let passed = |result: &v1::TestCoresResponse| of(result).outcome() == v1::TestOutcome::Passed;
    Ok(if results.iter().all(passed) { Exit::Done } else { Exit::Failed })
}

const COLUMNS: usize = 16;
/// The columns that are left out where no core has a value.
const OPTIONAL: [usize; 4] = [11, 12, 14, 15];

fn print_cores(cores: &[v1::Core]) {
    let header: [&str; COLUMNS] = [
        "CORE", "DEVICE", "JOB", "NAME", "PHASE", "UTIL 1S", "UTIL 1M", "TFLOP/S", "MFU", "MEMORY",
        "STEP", "PIPELINE", "SENT", "DRIVER", "TESTED", "FENCED",
    ];
    let rows: Vec<Vec<String>> = cores.iter().map(row).collect();
    let is_empty = |column: usize| rows.iter().all(|row| row[column].is_empty());
    let shown = |column: &usize| !OPTIONAL.contains(column) || !is_empty(*column);
    let columns: Vec<usize> = (0..COLUMNS).filter(shown).collect();
    let header: Vec<&str> = columns.iter().map(|column| header[*column]).collect();
    let of_columns =
        |row: &Vec<String>| columns.iter().map(|column| row[*column].clone()).collect();
    print_table(&header, &rows.iter().map(of_columns).collect::<Vec<_>>());
}

fn row(core: &v1::Core) -> Vec<String> {
    let mut row =
        vec![core_name(core), core.device.clone(), core.job_id.clone(), core.job_name.clone()];
    if let Some(usage) = &core.usage {
        row.extend([
            activity(usage),
            format!("{:.0} %", usage.utilization_percent_1s),
            format!("{:.0} %", usage.utilization_percent_1m),
            known(usage.tflops, |tflops| format!("{tflops:.3}")),
            known(usage.model_flops_utilization_percent, |percent| format!("{percent:.1} %")),
            bytes(usage.memory_used_bytes),
            usage.step.to_string(),
            usage.stage.as_ref().map(stage).unwrap_or_default(),
            usage.communication.as_ref().map(communication).unwrap_or_default(),
        ]);
    }
    row.resize(COLUMNS - 3, String::new());
    row.push(core.figures.as_ref().map(driver_statistics).unwrap_or_default());
    row.push(tested(core));
    row.push(core.fence.as_ref().map(fence).unwrap_or_default());
    row
}

/// How a core answered, and how long ago; "now" while it is tested.
fn tested(core: &v1::Core) -> String {
    let answered =
        |test: &v1::CoreTest| format!("{} {} ago", outcome(test), age(test.time.as_ref()));
    match core.being_tested {
        true => "now".to_owned(),
        false => core.test.as_ref().map(answered).unwrap_or_default(),
    }
}

/// Describes for how long a core has been fenced, and why.
fn fence(fence: &v1::Fence) -> String {
    format!("for {}: {}", age(fence.since.as_ref()), printable(&fence.reason))
}

/// Statistics of the driver, including other users: "87 %, 12.0 GiB of 16.0 GiB, 41 °C, 3 errors".
fn driver_statistics(figures: &v1::DeviceFigures) -> String {
    let memory = match (figures.memory_used_bytes, figures.memory_total_bytes) {
        (Some(used), Some(total)) => Some(format!("{} of {}", bytes(used), bytes(total))),
        (Some(used), None) => Some(bytes(used)),
        (None, _) => None,
    };
    let errors = figures.errors.filter(|errors| *errors > 0);
    let parts = [
        figures.utilization_percent.map(|percent| format!("{percent:.0} %")),
        memory,
        figures.temperature_celsius.map(|celsius| format!("{celsius:.0} °C")),
        figures.power_watts.map(|watts| format!("{watts:.0} W")),
        errors.map(|errors| counted(errors, "error").to_string()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Formats a value, or a dash if the platform does not report it.
fn known(value: f64, show: impl Fn(f64) -> String) -> String {
    if value > 0.0 { show(value) } else { "-".to_owned() }
}

/// Clears the screen, if standard output is a terminal.
fn clear_screen() {
    if std::io::stdout().is_terminal() {
        print!("\x1b[2J\x1b[H");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_named_as_they_are_printed() {
        let core = |core: u32, host: &str| v1::Core {
            platform: "cpu".to_owned(),
            core,
            host: host.to_owned(),
            ..v1::Core::default()
        };
        let all = [core(0, ""), core(1, ""), core(1, "node7")];
        let check = |name: &str, expect: Result<u32, &str>| match (number(&all, name), expect) {
            (Err(error), Err(expect)) => assert!(error.to_string().contains(expect), "{error}"),
            (found, expect) => assert_eq!(found.ok(), expect.ok(), "{name}"),
        };
        all[..2].iter().for_each(|core| check(&core_name(core), Ok(core.core)));
        check("7", Ok(7));
        check(&core_name(&all[2]), Err("return all of node7 by --host"));
        check("cuda:0", Err("there is no core cuda:0"));
    }
}
