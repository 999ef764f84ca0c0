//! How a reranker reads pairs: as two texts, or as sentence-transformers renders them by the chat template of the
//! model's tokenizer.

use std::path::Path;

use traind_loader::{ChatTemplate, MessageFormat, PairTemplate};
use traind_models::ModelConfig;
use traind_models::cross_encoder::MessageSettings;

use crate::error::RunResult;

/// How pairs are read.
pub(crate) enum PairReading {
    /// As two texts.
    Texts,
    /// As messages of a template.
    Messages(PairTemplate, MessageSettings),
    /// As two texts, since the template fails at pairs, for this reason.
    Unusable(String),
}

impl PairReading {
    /// The reading of the model folder with `config`.
    pub(crate) fn of_model(config: &ModelConfig) -> RunResult<PairReading> {
        let Some(settings) = MessageSettings::of_model(config)? else {
            return Ok(PairReading::Texts);
        };
        let folder = config.path().parent().unwrap_or(Path::new("."));
        let template = match ChatTemplate::open(folder, None) {
            Ok(None) => return Ok(PairReading::Texts),
            Ok(Some(template)) => template,
            Err(error) => return Ok(PairReading::Unusable(error.to_string())),
        };
        let format = settings.format.as_deref().and_then(MessageFormat::from_name);
        let format = match format {
            Some(format) => format,
            None => MessageFormat::of_template(&template, config.model_type()?),
        };
        let (prompts, restores_end) = (settings.prompts, settings.restores_end);
        Ok(match PairTemplate::new(template, format, prompts, restores_end) {
            Ok(template) => {
                let format = Some(template.format().name().to_owned());
                PairReading::Messages(template, MessageSettings { format, ..settings })
            }
            Err(problem) => PairReading::Unusable(problem.to_string()),
        })
    }
}
