//! The tokens that a job adds to its model's vocabulary.
//!
//! The run reads a folder of its own: links to the files of the model, beside a tokenizer with more tokens.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use traind_choices::GENERATION_CONFIG;
use traind_durable::read_description;
use traind_job_file::Model as ModelSection;
use traind_loader::{ExtendedTokenizer, NewTokens};
use traind_models::{Model, ModelConfig, Partition};

use crate::error::RunResult;
use crate::output::failed;

/// The name of the folder among the files of a run.
const FOLDER: &str = "model";

/// A model's folder, and its tokenizer where the job adds tokens.
pub(super) struct Vocabulary {
    pub folder: PathBuf,
    tokenizer: Option<ExtendedTokenizer>,
}

impl Vocabulary {
    /// Adds the tokens of the job in a folder of `run_dir`.
    pub(super) fn of_run(
        section: &ModelSection,
        folder: PathBuf,
        run_dir: &Path,
    ) -> RunResult<Vocabulary> {
        let Some(tokenizer) = extended(section, &folder)? else {
            return Ok(Vocabulary { folder, tokenizer: None });
        };
        let own = run_dir.join(FOLDER);
        link(&folder, &own, &tokenizer)?;
        Ok(Vocabulary { folder: own, tokenizer: Some(tokenizer) })
    }

    /// Gives a config the rows of the embeddings, and the tokens that have a role.
    pub(super) fn settle(
        &self,
        section: &ModelSection,
        mut config: ModelConfig,
    ) -> RunResult<ModelConfig> {
        let tokens = self.tokenizer.as_ref().map_or(0, |tokenizer| tokenizer.vocab_size);
        grow(section, &mut config, tokens as usize)?;
        for (key, id) in self.tokenizer.iter().flat_map(role_ids) {
            config.set(&key, id);
        }
        Ok(config)
    }
}

/// The config of a plan, which may know no tokenizer: then every token of the job counts as new.
pub(super) fn planned(section: &ModelSection, mut config: ModelConfig) -> RunResult<ModelConfig> {
    let folder = config.path().parent().filter(|folder| folder.join("tokenizer.json").exists());
    let tokenizer = match folder {
        Some(folder) => extended(section, folder)?,
        None => None,
    };
    let tokens = match tokenizer {
        Some(tokenizer) => tokenizer.vocab_size as usize,
        None if section.adds_tokens() => config.size("vocab_size")? + section.new_tokens().count(),
        None => 0,
    };
    grow(section, &mut config, tokens)?;
    Ok(config)
}

/// Says that adapters leave rows of new tokens as they are, if they do.
pub(super) fn warning(model: &Model) -> Option<String> {
    if model.config().stored_vocab_size().is_none() || model.adapters().is_empty() {
        return None;
    }
    let frozen = model.parameters().iter().find(|spec| {
        spec.partitions.contains(&Partition::Vocabulary)
            && !spec.trainable
            && !model.adapters().owns(&spec.name)
            && !model.adapters().trains_rows_of(&spec.name)
    })?;
    Some(format!(
        "the rows of new tokens in {} are not trained: peft.trainable_token_indices trains the rows of \
         the tokens that it lists, and peft.modules_to_save whole modules (with \
         peft.ensure_weight_tying where the model ties them)",
        frozen.name
    ))
}

fn grow(section: &ModelSection, config: &mut ModelConfig, tokens: usize) -> RunResult<()> {
    let multiple_of = section.pad_vocab_to_multiple_of.map(|multiple| multiple as usize);
    if tokens == 0 && multiple_of.is_none() {
        return Ok(());
    }
    Ok(config.grow_vocabulary(tokens, multiple_of)?)
}

/// The tokenizer of a folder with the tokens of the job, if it has any.
fn extended(section: &ModelSection, folder: &Path) -> RunResult<Option<ExtendedTokenizer>> {
    if !section.adds_tokens() {
        return Ok(None);
    }
    let special = &section.add_special_tokens;
    let roles = special.roles().map(|(role, token)| (role.to_owned(), token.to_owned()));
    let tokens = NewTokens {
        plain: section.add_tokens.clone(),
        roles: roles.collect(),
        special: special.additional_special_tokens.clone(),
    };
    Ok(Some(ExtendedTokenizer::new(folder, &tokens)?))
}

/// The keys of configs that name tokens, with their ids.
fn role_ids(tokenizer: &ExtendedTokenizer) -> impl Iterator<Item = (String, u32)> {
    let of_configs = |role: &str| ["bos_token", "eos_token", "pad_token"].contains(&role);
    let roles = tokenizer.roles.iter().filter(move |(role, _)| of_configs(role));
    roles.map(|(role, id)| (format!("{role}_id"), *id))
}

/// Fills `own` anew with links to the files of `folder` and with those of the tokenizer.
fn link(folder: &Path, own: &Path, tokenizer: &ExtendedTokenizer) -> RunResult<()> {
    if own.exists() {
        fs::remove_dir_all(own).map_err(failed("remove", own))?;
    }
    fs::create_dir_all(own).map_err(failed("create", own))?;
    let write = |name: &str, content: &str| {
        let path = own.join(name);
        fs::write(&path, content).map_err(failed("write", &path))
    };
    tokenizer.files().try_for_each(|(name, content)| write(name, content))?;
    if let Some(text) = generation_config(folder, tokenizer) {
        write(GENERATION_CONFIG, &text)?;
    }
    for entry in fs::read_dir(folder).map_err(failed("read", folder))? {
        let entry = entry.map_err(failed("read", folder))?;
        let path = own.join(entry.file_name());
        if !path.exists() {
            let target = fs::canonicalize(entry.path()).map_err(failed("read", &entry.path()))?;
            symlink(target, &path).map_err(failed("link", &path))?;
        }
    }
    Ok(())
}

/// The settings of generation with the tokens that have a role, if the folder has such settings that can
/// be read.
fn generation_config(folder: &Path, tokenizer: &ExtendedTokenizer) -> Option<String> {
    let text = read_description(&folder.join(GENERATION_CONFIG)).ok()?;
    let mut keys: Map<String, Value> = serde_json::from_slice(&text).ok()?;
    keys.extend(role_ids(tokenizer).map(|(key, id)| (key, id.into())));
    serde_json::to_string_pretty(&keys).ok()
}
