//! Runs the commands of a page.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use traind_proto::v1::{Job, JobState};
use traind_tests::{CommandOutput, Draft, Host, data, model};

use super::super::commands::of_quotation;
use super::super::{Document, quoted, repository};

/// The longest that a command may take, in seconds.
const TIME_LIMIT: &str = "120";

/// Beginnings of commands that are not run, each with the reason.
pub(super) type Skipped = &'static [(&'static str, &'static str)];

/// A page whose commands run in a folder of a host.
pub(super) struct Walk {
    pub(super) host: Host,
    page: Document,
    folder: PathBuf,
    skipped: Skipped,
    /// Placeholders of the page and what stands for them.
    pub(super) placeholders: Vec<(&'static str, String)>,
}

impl Walk {
    pub(super) fn new(host: Host, page: &str, skipped: Skipped) -> Walk {
        let folder = host.path("walk");
        fs::create_dir(&folder).unwrap();
        let page = Document::read(repository().join(page));
        Walk { host, page, folder, skipped, placeholders: Vec::new() }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a file that the page takes for granted.
    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap()
    }

    /// Writes the model of a fixture.
    pub(super) fn write_model(&self, name: &str, fixture: &str) {
        model::write_fixture(&self.folder.join(name), fixture);
    }

    /// Writes the model and the data that [`JOB_FILE`](traind_tests::JOB_FILE) names.
    pub(super) fn write_inputs(&self) {
        self.write_model("model", "bert-sequence-classification");
        self.write("train.csv", data::csv(&data::rows(1, 60, 6)));
        self.write("validation.parquet", data::parquet(&data::rows(2, 53, 6)));
    }

    /// Completes a job of this name, which the page takes for granted.
    pub(super) async fn complete(&self, name: &str, settings: &[(&str, &str)]) {
        let draft = Draft::new(&self.host, name);
        let draft = settings.iter().fold(draft, |draft, (field, value)| draft.set(field, value));
        self.host.complete(&draft).await;
    }

    /// Runs a job of this name that fails because of a setting.
    pub(super) async fn fail(&self, name: &str, (field, value): (&str, &str)) -> Job {
        let job = self.host.run(&Draft::new(&self.host, name).set(field, value)).await.job;
        assert_eq!(job.state(), JobState::Failed, "{job:?}");
        job
    }

    /// Starts a job of this name that does not end by itself.
    pub(super) async fn start_endless(&self, name: &str) {
        let draft = Draft::new(&self.host, name).endless();
        let job = self.host.create(&draft).await.unwrap();
        self.host.until_past(&job.id, 0).await;
    }

    /// The page's blocks of a language.
    pub(super) fn blocks<'a>(&'a self, language: &'a str) -> impl Iterator<Item = &'a str> {
        self.page.blocks(language)
    }

    /// The commands in blocks, in the order of the page, without those that are skipped.
    pub(super) fn commands(&self) -> Vec<String> {
        self.kept(self.in_blocks())
    }

    /// The calls of `traind` in the first column of tables, without those that are skipped.
    pub(super) fn table_commands(&self) -> Vec<String> {
        self.kept(self.in_tables())
    }

    fn in_blocks(&self) -> Vec<String> {
        let blocks = self.page.all_blocks();
        blocks.flat_map(|(language, block)| of_block(language, block)).collect()
    }

    fn in_tables(&self) -> Vec<String> {
        let rows = self.page.text.lines().filter(|line| line.starts_with("| `traind "));
        let cells: Vec<&str> = rows.filter_map(|row| row.split(" | ").next()).collect();
        let calls = cells.iter().flat_map(|cell| quoted(cell)).filter_map(of_quotation).flatten();
        calls.map(|words| format!("traind {}", words.join(" "))).collect()
    }

    /// Fails where a command is to be skipped that the page no longer has.
    fn kept(&self, commands: Vec<String>) -> Vec<String> {
        let all = [self.in_blocks(), self.in_tables()].concat();
        for (begin, _) in self.skipped {
            let page = self.page.path.display();
            assert!(all.iter().any(|it| it.starts_with(begin)), "{page} has no `{begin}` to skip");
        }
        let is_skipped =
            |command: &String| self.skipped.iter().any(|(begin, _)| command.starts_with(begin));
        commands.into_iter().filter(|command| !is_skipped(command)).collect()
    }

    /// Runs a command as the page shows it, except for placeholders, and fails unless it succeeds.
    pub(super) fn run(&self, command: &str) -> CommandOutput {
        let command = self
            .placeholders
            .iter()
            .fold(command.to_owned(), |command, (name, value)| command.replace(name, value));
        let output = self.shell(&command);
        let shown = format!("{}: {command}", self.page.path.display());
        assert_eq!(output.code, Some(0), "{shown}\n{}{}", output.stdout, output.stderr);
        output
    }

    fn shell(&self, command: &str) -> CommandOutput {
        let traind = self.host.traind();
        let programs = traind_tests::traind().parent().unwrap().to_owned();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("timeout");
        shell.args([TIME_LIMIT, "bash", "-euo", "pipefail", "-c", command]);
        shell.current_dir(&self.folder);
        for (name, value) in traind.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell.env("PATH", path).env("HOME", &self.folder).env_remove("XDG_STATE_HOME");
        shell.stdin(Stdio::null());
        CommandOutput::of(shell.output().unwrap())
    }
}

/// The commands of a block: its lines, or of a console's those behind a prompt.
fn of_block(language: &str, block: &str) -> Vec<String> {
    let joined = block.replace("\\\n", " ");
    let lines = joined.lines();
    match language {
        "sh" => lines.map(str::to_owned).collect(),
        "console" => lines.filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}
