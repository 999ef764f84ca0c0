//! `traind convert`: converts other tools' settings, without a daemon.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;
use traind_convert::{Converted, Refused, Source};

use super::endings::{self, JOB_FILE_ENDINGS, JOB_FILES};
use super::exit::Exit;
use super::submit::{is_standard, parse_override, read};

const EXAMPLES: &str = "\
Examples:
  traind convert -- torchrun --nproc_per_node 2 run_glue.py --task_name sst2 --do_train ...
  traind convert axolotl.yaml --output job.yaml
  traind convert training_args.json --set model.name_or_path=org/name --set model.task=masked-lm \\
    --set data.train=texts.txt";

/// Convert another tool's settings to a job file
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Convert {
    /// TrainingArguments or SageMaker's hyperparameters as JSON, YAML of axolotl, LLaMA-Factory or TRL, or
    /// a shell script (.sh) that runs a transformers example script; - is standard input
    #[arg(required_unless_present = "command")]
    file: Option<PathBuf>,
    /// The tool [default: recognized by its keys]
    #[arg(long, value_enum, value_name = "TOOL")]
    from: Option<Tool>,
    /// Set a value of the job file, such as data.train=train.csv
    #[arg(long, value_name = "FIELD=VALUE", value_parser = parse_override)]
    set: Vec<(String, String)>,
    /// Write the job file here, where no file is yet; - is standard output, the default
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Command line of an example script
    #[arg(last = true, conflicts_with = "file")]
    command: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Tool {
    TrainingArguments,
    Command,
    Axolotl,
    LlamaFactory,
    Sagemaker,
    Trl,
}

impl Convert {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let converted = match &self.file {
            Some(file) => self.convert_file(file).map_err(|error| naming(file, error))?,
            None => traind_convert::convert_command(&self.command, &self.set, &|path| {
                std::fs::read_to_string(path).ok()
            })?,
        };
        write(self.output.as_deref(), &converted)?;
        Ok(Exit::Done)
    }

    fn convert_file(&self, file: &Path) -> anyhow::Result<Converted> {
        let text = read(file).map_err(in_utf_8)?;
        // Paths are relative to the folder that a tool is called in.
        let beside = |path: &Path| {
            let folder = file.parent().unwrap_or(Path::new("."));
            let found = [path.to_owned(), folder.join(path)];
            found.iter().find_map(|path| std::fs::read_to_string(path).ok())
        };
        let is_script = file.extension().is_some_and(|extension| extension == "sh");
        if self.from == Some(Tool::Command) || self.from.is_none() && is_script {
            return Ok(traind_convert::convert_script_with(&text, &self.set, &beside)?);
        }
        let source = match self.from {
            Some(Tool::TrainingArguments) => Some(Source::TrainingArguments),
            Some(Tool::Axolotl) => Some(Source::Axolotl),
            Some(Tool::LlamaFactory) => Some(Source::LlamaFactory),
            Some(Tool::Sagemaker) => Some(Source::SageMaker),
            Some(Tool::Trl) => Some(Source::Trl),
            None | Some(Tool::Command) => None,
        };
        Ok(traind_convert::convert_with(source, &text, &self.set, &beside)?)
    }
}

/// Names the file in what is refused of it as a whole, where other problems have a key.
fn naming(file: &Path, error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<Refused>() {
        Ok(mut refused) => {
            let name = match is_standard(file) {
                true => "standard input".to_owned(),
                false => file.display().to_string(),
            };
            for note in refused.notes.iter_mut().filter(|note| note.key.is_empty()) {
                note.key.clone_from(&name);
            }
            refused.into()
        }
        Err(error) => error,
    }
}

/// The error about a file that is no text, with what to convert in its place.
fn in_utf_8(error: anyhow::Error) -> anyhow::Error {
    let is_no_text = error.chain().any(|cause| {
        let found = cause.downcast_ref::<std::io::Error>();
        found.is_some_and(|found| found.kind() == std::io::ErrorKind::InvalidData)
    });
    match is_no_text {
        true => error.context(
            "settings are text in UTF-8; of training_args.bin, write training_args.to_json_string() to a file, and \
             convert that",
        ),
        false => error,
    }
}

/// Writes the job file, whose comments contain the notes. The notes are also printed if it goes to a
/// file.
fn write(output: Option<&Path>, converted: &Converted) -> anyhow::Result<()> {
    let Some(path) = output.filter(|path| !is_standard(path)) else {
        print!("{}", converted.job_file);
        return Ok(());
    };
    endings::refuse_others(path, JOB_FILES, &JOB_FILE_ENDINGS)?;
    let mut file = File::create_new(path).with_context(|| {
        format!("write {}: name another file with --output, or remove it", path.display())
    })?;
    file.write_all(converted.job_file.as_bytes())
        .with_context(|| format!("write {}", path.display()))?;
    for note in &converted.notes {
        eprintln!("{note}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_whole_file_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let check = |name: &str, text: &str, expect: &str| {
            let file = folder.path().join(name);
            std::fs::write(&file, text).unwrap();
            let convert = Convert {
                file: Some(file.clone()),
                from: None,
                set: vec![],
                output: None,
                command: vec![],
            };
            let error = convert.run().err().unwrap().to_string();
            let expect =
                format!("the settings cannot be converted\n  {}: {expect}", file.display());
            assert!(error.starts_with(&expect), "{error}");
        };
        check("train.py", "import transformers\n", "is Python, which is not run");
        check("empty.yaml", "", "is empty");
        check("list.yaml", "- a\n", "is a list");
        check("rows.jsonl", "{\"a\": 1}\n{\"a\": 2}\n", "is rows of data");
        check("run.sh", "echo\n", "");
    }
}
