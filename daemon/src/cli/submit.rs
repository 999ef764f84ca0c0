//! `traind submit`.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use traind_proto::v1;

use super::Global;
use super::connect::client;
use super::dry_run;
use super::exit::Exit;
use super::show::follow;
use crate::interfaces::server::JOB_FILE_BYTES_MAX;
use crate::interfaces::text;
use crate::job_id;

/// Submit a job file, and print the job's id
#[derive(clap::Args)]
pub(crate) struct Submit {
    /// The job file, YAML; - is standard input. Its relative paths start at the current directory
    job_file: PathBuf,
    /// Follow the job to its end
    #[arg(long)]
    watch: bool,
    /// Replace a value of the job file, such as train.learning_rate=3e-5
    #[arg(long, value_name = "FIELD=VALUE", value_parser = parse_override)]
    set: Vec<(String, String)>,
    /// Submit at most once with this id: a repeated request returns the first one's job
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// Show what would be submitted to the job's cluster, and submit nothing
    #[arg(long, conflicts_with_all = ["watch", "request_id"])]
    dry_run: bool,
}

impl Submit {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        let job_file = read(&self.job_file)?;
        let base_dir = working_directory()?;
        if self.dry_run {
            let overrides = self.set.into_iter().collect();
            return dry_run::run(&job_file, &overrides, Path::new(&base_dir));
        }
        let request_id = request_id(self.request_id)?;
        let overrides: BTreeMap<String, String> = self.set.into_iter().collect();
        let request = v1::CreateJobRequest { request_id, job_file, base_dir, overrides };
        let jobs = client::jobs(&global).await?;
        // The request has an id, so retries do not create another job.
        let create = || {
            let (mut jobs, request) = (jobs.clone(), request.clone());
            async move { jobs.create_job(request).await }
        };
        let job = client::retry(create).await?;
        print_submitted(&job);
        if !self.watch {
            return Ok(Exit::Done);
        }
        follow::follow(jobs, client::cores(&global).await?, &job).await
    }
}

/// The id of a request: the given one, or a new one.
pub(crate) fn request_id(given: Option<String>) -> anyhow::Result<String> {
    given.map_or_else(|| job_id::new().context("generate a request id"), Ok)
}

/// Prints the warnings and the id of a submitted job.
pub(crate) fn print_submitted(job: &v1::Job) {
    for warning in &job.warnings {
        eprintln!("warning: {}", text::printable(&warning.message));
    }
    println!("{}", job.id);
}

pub(crate) fn working_directory() -> anyhow::Result<String> {
    let folder = std::env::current_dir().context("find the current directory")?;
    Ok(folder.to_str().context("the current directory is not UTF-8")?.to_owned())
}

/// The path of an argument that a job file or a request names, and so UTF-8.
pub(crate) fn utf8_path(argument: &str) -> Result<PathBuf, std::convert::Infallible> {
    Ok(PathBuf::from(argument))
}

/// Returns true for `-`, which means standard input or output in place of a file.
pub(crate) fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    let text = match is_standard(path) {
        true => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("read standard input")?;
            text
        }
        false => {
            std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?
        }
    };
    check_size(path, text.len())?;
    Ok(text)
}

/// Refuses a job file that the daemon would not receive.
fn check_size(path: &Path, bytes: usize) -> anyhow::Result<()> {
    if bytes <= JOB_FILE_BYTES_MAX {
        return Ok(());
    }
    let [size, max] = [bytes, JOB_FILE_BYTES_MAX].map(|bytes| text::bytes(bytes as u64));
    let path = path.display();
    bail!(
        "{path} has {size}, and a job file at most {max}: name data files by a pattern such as rows/*.jsonl \
         in place of a list, and chat templates by their files"
    )
}

pub(crate) fn parse_override(text: &str) -> anyhow::Result<(String, String)> {
    match text.split_once('=') {
        Some((field, value)) if !field.is_empty() => Ok((field.to_owned(), value.to_owned())),
        _ => bail!("must be FIELD=VALUE"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_file_that_the_daemon_does_not_receive_is_refused_with_its_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("job.yaml");
        std::fs::write(&path, "a".repeat(JOB_FILE_BYTES_MAX)).unwrap();
        assert!(read(&path).is_ok());
        std::fs::write(&path, "a".repeat(JOB_FILE_BYTES_MAX + (1 << 19))).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("job.yaml has 1.5 MiB, and a job file at most 1.0 MiB"), "{error}");
    }
}
