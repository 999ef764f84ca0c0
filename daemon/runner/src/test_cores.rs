//! `traind-runner test-cores`: tests idle cores by programs whose results are known. Reads a [`TestCoresRequest`] as a
//! line of JSON from standard input, writes a [`TestCoresAnswer`] to standard output, and ends at once when standard
//! input is closed, since its daemon has ended and may give the cores to a job.

use anyhow::Context as _;
use traind_job_file::commands::{CoreAnswer, TestCoresAnswer, TestCoresRequest};
use traind_pjrt::{Client, Plugin};
use traind_xla::runtime::{self, test_cores};

use crate::own_output::answer_daemon;
use crate::session::client_options;

/// Names a core that answers wrong, for tests of the daemon.
const WRONG_CORE: &str = "TRAIND_TEST_WRONG_CORE";

/// Answers the request on standard input.
pub(crate) fn answer() -> anyhow::Result<()> {
    answer_daemon(test)
}

fn test(request: &TestCoresRequest) -> anyhow::Result<TestCoresAnswer> {
    let TestCoresRequest { platform, plugin, cores } = request;
    let client = Client::new(Plugin::load(plugin)?, &client_options(platform, cores.len()))?;
    let found = client.devices().count();
    anyhow::ensure!(found >= cores.len(), "the plugin has {found} of {} devices", cores.len());
    let answers = test_cores(&client, cores.len(), spoilt(cores)?).context("run the test")?;
    let of_core = |it: runtime::CoreAnswer| CoreAnswer { problem: it.problem, seconds: it.seconds };
    Ok(TestCoresAnswer { cores: answers.into_iter().map(of_core).collect() })
}

fn spoilt(cores: &[u32]) -> anyhow::Result<Option<usize>> {
    let Ok(wrong) = std::env::var(WRONG_CORE) else { return Ok(None) };
    let wrong: u32 = wrong
        .parse()
        .with_context(|| format!("{WRONG_CORE} is {wrong:?}, and no number of a core"))?;
    Ok(cores.iter().position(|core| *core == wrong))
}
