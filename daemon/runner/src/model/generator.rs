//! The generator of a model that is trained to detect the tokens which it replaces: `model.generator`, or the folder
//! `generator` in that of the model, which an earlier run wrote.

use serde_json::Map;
use traind_hub::ModelRequest;
use traind_job_file::{Model as ModelSection, TaskName};
use traind_models::{ModelConfig, TokenGenerator};

use super::{config_of, folder_of};
use crate::error::RunResult;
use crate::reporting::Downloads;

const FIELD: &str = "model.generator";
pub(super) const FOLDER: &str = "generator";

/// Adds the generator's config to that of the model, if the generator has a folder.
pub(super) fn settle(
    section: &ModelSection,
    config: ModelConfig,
    downloads: &Downloads,
) -> RunResult<ModelConfig> {
    let named = match &section.generator {
        Some(source) => {
            let folder = folder_of(FIELD, source, |id| request(section, id), downloads)?;
            Some(ModelConfig::load(&folder, &Map::new())?)
        }
        None => beside(section, &config)?,
    };
    Ok(with_generator(config, named))
}

/// Adds the generator's config for a plan, which reads nothing else and writes nothing.
pub(super) fn planned(
    section: &ModelSection,
    config: ModelConfig,
    may_fetch: bool,
) -> RunResult<ModelConfig> {
    let named = match &section.generator {
        Some(source) => {
            let request = |id: &str| request(section, id);
            Some(config_of(FIELD, source, request, &Map::new(), may_fetch)?)
        }
        None => beside(section, &config)?,
    };
    Ok(with_generator(config, named))
}

/// The config of the generator that an earlier run wrote beside the model.
fn beside(section: &ModelSection, config: &ModelConfig) -> RunResult<Option<ModelConfig>> {
    let folder = config.path().parent().map(|folder| folder.join(FOLDER));
    let is_read = section.task == TaskName::ReplacedTokenDetection;
    match folder.filter(|folder| is_read && folder.join("config.json").exists()) {
        Some(folder) => Ok(Some(ModelConfig::load(&folder, &Map::new())?)),
        None => Ok(None),
    }
}

fn with_generator(mut config: ModelConfig, named: Option<ModelConfig>) -> ModelConfig {
    if let Some(named) = named {
        let config_of = Some(Box::new(named));
        config
            .set_token_generator(TokenGenerator { config: config_of, ..TokenGenerator::default() });
    }
    config
}

/// The request for a generator of the hub, of the main branch.
fn request(section: &ModelSection, id: &str) -> ModelRequest {
    ModelRequest { id: id.to_owned(), revision: None, with_weights: !section.from_config }
}
