//! Files of the output folder that belong to the job: records them, and removes what an earlier save has left.

use std::fs;
use std::path::Path;

use traind_choices::COMPANION_FILES;
use traind_folders::{Identity, Intent, MODEL_CARD, Record, Writes, is_adapter, is_model};

use super::{failed, sync_folder};
use crate::error::RunResult;

/// Files that every training writes.
const STATE: [&str; 2] = ["trainer_state.json", "loss_curve.svg"];

/// Returns true if the run may write the model card, which it does not write over one of the user's.
pub(crate) fn may_write_card(folder: &Path) -> RunResult<bool> {
    traind_folders::may_replace(folder, MODEL_CARD).map_err(failed("look up the record of", folder))
}

/// Returns true if both paths are one folder.
pub(crate) fn is_same_folder(one: &Path, other: &Path) -> RunResult<bool> {
    let of = |path: &Path| Identity::of(path).map_err(failed("look up", path));
    Ok(of(one)?.is(&of(other)?))
}

/// Records the files of a finished training: those of the model, which are `written`, and all others.
/// Then removes a model or adapters of an earlier save that would be loaded instead. `copied_from` is
/// the folder of the model.
pub(crate) fn settle(
    folder: &Path,
    intent: &Intent,
    written: &[String],
    has_card: bool,
    copied_from: &Path,
) -> RunResult<()> {
    let copied = COMPANION_FILES.into_iter().filter(|name| copied_from.join(name).exists());
    let copied = copied.filter(|_| !is_same_folder(copied_from, folder).unwrap_or(true));
    let others = copied.chain(STATE).chain(has_card.then_some(MODEL_CARD)).map(str::to_owned);
    let names = written.iter().cloned().chain(others);
    Record::add_files(folder, names).map_err(failed("record the files of", folder))?;
    remove_superseded(folder, intent, written)
}

/// Records the results of evaluations.
pub(crate) fn record_results(folder: &Path) -> RunResult<()> {
    Record::add_results(folder).map_err(failed("record the files of", folder))
}

/// Removes files of the model or of adapters that are not `written`, if traind wrote them or the job overwrites them.
fn remove_superseded(folder: &Path, intent: &Intent, written: &[String]) -> RunResult<()> {
    let identity = Identity::of(folder).map_err(failed("look up", folder))?;
    // Adapters are loaded with the base that is in the same folder.
    if intent.reads(&identity) {
        return Ok(());
    }
    let record = Record::read(folder).map_err(failed("read the record of", folder))?;
    let overwrites = intent.overwrites && intent.writes == Writes::Model;
    // A folder without a record is the run's alone.
    let is_owned = |name: &str| record.as_ref().is_none_or(|it| it.has_file(name, true));
    let mut superseded = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed("list", folder))? {
        let path = entry.map_err(failed("list", folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_of_model = is_model(&name) || is_adapter(&name);
        let may = is_owned(&name) || overwrites && is_model(&name);
        if is_of_model && may && !written.contains(&name) {
            superseded.push(path);
        }
    }
    if !superseded.is_empty() {
        // What takes their place must be durable first.
        sync_folder(folder)?;
    }
    superseded.iter().try_for_each(|path| fs::remove_file(path).map_err(failed("remove", path)))
}

#[cfg(test)]
mod tests {
    use traind_folders::Claim;
    use traind_job_file::JobFile;

    use super::*;

    const WHOLE: [&str; 4] = [
        "config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    ];
    const ADAPTER: [&str; 2] = ["adapter_config.json", "adapter_model.safetensors"];

    /// Files that are there before the job, those that it or an earlier job wrote, and what the job writes.
    fn check(before: &[&str], recorded: &[&str], rest: &str, written: &[&str], left: &[&str]) {
        let scratch = tempfile::tempdir().unwrap();
        let (out, base) = (scratch.path().join("out"), scratch.path().join("base"));
        let write =
            |names: &[&str]| names.iter().for_each(|name| fs::write(out.join(name), "").unwrap());
        for folder in [&out, &base] {
            fs::create_dir(folder).unwrap();
        }
        write(before);
        Record::begin(&out, Claim { job: "a", name: "a" }).unwrap();
        write(recorded);
        let owned =
            |names: &[&str]| -> Vec<String> { names.iter().map(|it| it.to_string()).collect() };
        Record::add_files(&out, owned(recorded)).unwrap();
        write(written);
        let yaml = format!(
            "name: a\nmodel: {{task: causal-lm, {rest}\ndata: {{train: a.txt}}\noutput_dir: out"
        );
        let intent = Intent::of(&JobFile::parse(&yaml, scratch.path()).unwrap().job);
        settle(&out, &intent, &owned(written), false, &base).unwrap();
        let entries = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        names.retain(|name| name != traind_folders::NOTES);
        names.sort();
        assert_eq!(names, left, "{before:?}, {recorded:?}, {rest}");
    }

    #[test]
    fn a_save_removes_only_models_that_traind_wrote_or_may_overwrite() {
        let full = "name_or_path: ./base}";
        let lora = "name_or_path: ./base}\npeft: {method: lora}";
        let lora_in_base = "name_or_path: ./out}\npeft: {method: lora}";
        let overwrite = "\ntrain: {overwrite_output_dir: true}";
        let one = ["config.json", "model.safetensors"];
        check(&[], &WHOLE, full, &one, &one);
        check(
            &["notes.txt"],
            &ADAPTER,
            full,
            &one,
            &["config.json", "model.safetensors", "notes.txt"],
        );
        check(&[], &one, lora, &ADAPTER, &ADAPTER);
        let both = [
            "adapter_config.json",
            "adapter_model.safetensors",
            "config.json",
            "model.safetensors",
        ];
        check(&one, &[], lora, &ADAPTER, &both);
        check(&one, &[], &format!("{lora}{overwrite}"), &ADAPTER, &both);
        check(&[], &one, lora_in_base, &ADAPTER, &both);
        check(&[], &one, &format!("{lora_in_base}{overwrite}"), &ADAPTER, &both);
        check(&WHOLE, &[], &format!("{full}{overwrite}"), &one, &one);
        check(
            &["model-of-mine.safetensors"],
            &WHOLE,
            full,
            &one,
            &["config.json", "model-of-mine.safetensors", "model.safetensors"],
        );
    }
}
