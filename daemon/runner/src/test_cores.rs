//! `traind-runner test-cores`: tests idle cores by programs whose results are known. Reads a [`TestCoresRequest`] as a
//! line of JSON from standard input, writes a [`TestCoresAnswer`] to standard output, and ends at once when standard
//! input is closed, since its daemon has ended and may give the cores to a job.

use std::path::Path;

use anyhow::Context as _;
use traind_cache::CacheFolders;
use traind_job_file::commands::{CoreAnswer, TestCoresAnswer, TestCoresRequest};
use traind_pjrt::{Client, Plugin};
use traind_xla::runtime::{self, ExecutableCache, test_cores};

use crate::own_output::answer_daemon;
use crate::session::client_options;

/// Names a core that answers wrong, for tests of the daemon.
const WRONG_CORE: &str = "TRAIND_TEST_WRONG_CORE";

/// Programs of tests are small.
const EXECUTABLES_BYTES_MAX: u64 = 256 << 20;

/// Answers the request on standard input.
pub(crate) fn answer() -> anyhow::Result<()> {
    answer_daemon(test)
}

fn test(request: &TestCoresRequest) -> anyhow::Result<TestCoresAnswer> {
    let TestCoresRequest { platform, plugin, cores, executables } = request;
    let client = Client::new(Plugin::load(plugin)?, &client_options(platform, cores.len()))?;
    let found = client.devices().count();
    anyhow::ensure!(found >= cores.len(), "the plugin has {found} of {} devices", cores.len());
    let cache = ExecutableCache::open(executables)?;
    let answers = test_cores(&client, cores.len(), Some(&cache), spoilt(cores)?);
    let answers = answers.context("run the test")?;
    evict(executables);
    let of_core = |it: runtime::CoreAnswer| CoreAnswer { problem: it.problem, seconds: it.seconds };
    Ok(TestCoresAnswer { cores: answers.into_iter().map(of_core).collect() })
}

/// Evicts programs that were not used recently, such as those for an older plugin. A failure leaves them for the next
/// test.
fn evict(executables: &Path) {
    let folders = CacheFolders { of_folders: Vec::new(), of_files: vec![executables.to_owned()] };
    let _ = traind_cache::evict(&folders, EXECUTABLES_BYTES_MAX);
}

fn spoilt(cores: &[u32]) -> anyhow::Result<Option<usize>> {
    let Ok(wrong) = std::env::var(WRONG_CORE) else { return Ok(None) };
    let wrong: u32 = wrong
        .parse()
        .with_context(|| format!("{WRONG_CORE} is {wrong:?}, and no number of a core"))?;
    Ok(cores.iter().position(|core| *core == wrong))
}
