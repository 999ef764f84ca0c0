//! The files of the output folder, which transformers loads unmodified, and their names.
//!
//! Imports `reporting`, `metrics` and `error`.

pub(crate) mod charts;
mod files;
mod model_card;
mod owned;
mod predictions;
mod reports;
mod trainer_state;
mod yaml;

use std::io::Write;
use std::path::{Path, PathBuf};

pub(crate) use files::folder_bytes;
pub(crate) use model_card::{EvaluatedData, ModelCard};
pub(crate) use owned::{is_same_folder, may_write_card, record_results, settle};
pub(crate) use predictions::{Predictions, number_lists, text_lists};
pub(crate) use reports::Reports;
pub(crate) use trainer_state::{LogEntry, TrainerState};

use traind_choices::COMPANION_FILES;
use traind_durable::Replacement;

use crate::error::{RunError, RunResult};

pub(crate) use traind_folders::CHECKPOINT_PREFIX;

/// The file that makes a checkpoint complete.
pub(crate) const MANIFEST: &str = "manifest.json";

/// The folder of a checkpoint.
pub(crate) fn checkpoint_folder(output_dir: &Path, step: u64) -> PathBuf {
    output_dir.join(format!("{CHECKPOINT_PREFIX}{step}"))
}

/// Turns an I/O error at `path` into the run's error.
pub(crate) fn failed(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> RunError {
    let path = path.to_owned();
    move |source| RunError::Output { action, path, source }
}

/// Creates the output folder and checks that it is writable, before any work is done for it.
pub(crate) fn create_folder(folder: &Path) -> RunResult<()> {
    std::fs::create_dir_all(folder).map_err(failed("create", folder))?;
    let probe = folder.join(".traind-probe");
    traind_durable::replace(&probe, b"").map_err(failed("write", &probe))?;
    std::fs::remove_file(&probe).map_err(failed("remove", &probe))
}

/// The file of a model folder that has its chat template.
const CHAT_TEMPLATE: &str = "chat_template.jinja";

/// Copies the files of the tokenizer, of the image processor and of generation from the model folder, unless `to` is
/// that folder. [`sync_folder`] makes them durable.
pub(crate) fn copy_tokenizer(from: &Path, to: &Path) -> RunResult<()> {
    if is_same_folder(from, to)? {
        return Ok(());
    }
    for name in COMPANION_FILES {
        let source = from.join(name);
        if source.exists() {
            let content = std::fs::read(&source).map_err(failed("read", &source))?;
            let copy = to.join(name);
            if let Some(folder) = copy.parent().filter(|folder| *folder != to) {
                std::fs::create_dir_all(folder).map_err(failed("create", folder))?;
            }
            write_of_several(&copy, &content)?;
        }
    }
    Ok(())
}

/// The names of the files that [`copy_tokenizer`] copies from a folder.
pub(crate) fn copied_names(from: &Path) -> impl Iterator<Item = &'static str> {
    COMPANION_FILES.into_iter().filter(|name| from.join(name).exists())
}

/// Writes the chat template that the job chose, in place of the model's own.
pub(crate) fn write_chat_template(to: &Path, template: Option<String>) -> RunResult<()> {
    template.map_or(Ok(()), |text| write_of_several(&to.join(CHAT_TEMPLATE), text.as_bytes()))
}

/// The size of the files that [`copy_tokenizer`] copies.
pub(crate) fn tokenizer_bytes(from: &Path) -> u64 {
    let sizes = COMPANION_FILES.into_iter().map(|name| std::fs::metadata(from.join(name)));
    sizes.flatten().map(|metadata| metadata.len()).sum()
}

/// Writes a file of the output folder, whole or not at all.
pub(crate) fn write(path: &Path, content: &[u8]) -> RunResult<()> {
    traind_durable::replace(path, content).map_err(failed("write", path))
}

/// Writes one of several files, whose names [`sync_folder`] makes durable at once.
pub(crate) fn write_of_several(path: &Path, content: &[u8]) -> RunResult<()> {
    let file = Replacement::of(path).without_folder();
    file.write(|file| file.write_all(content)).map_err(failed("write", path))
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> RunResult<()> {
    traind_durable::sync_folder(folder).map_err(failed("sync", folder))
}
