//! Files of settings beside a tokenizer's vocabulary.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use traind_durable::read_description;

use crate::error::{Error, Result};

/// The settings in `config.json` that concern the tokenizer.
#[derive(Clone, Default, Deserialize)]
pub(super) struct ModelSettings {
    #[serde(default)]
    pub(super) model_type: Option<String>,
    #[serde(default)]
    pub(super) tokenizer_class: Option<String>,
}

impl ModelSettings {
    pub(super) fn read(file: &Path) -> Result<Self> {
        read_settings(file)
    }
}

/// The content of a JSON file; the default if there is no such file.
pub(crate) fn read_settings<T: DeserializeOwned + Default>(file: &Path) -> Result<T> {
    match read_description(file) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).map_err(|error| Error::bad_tokenizer(file, error))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(Error::io(file, "read the tokenizer's settings")(error)),
    }
}

/// The text of a special token, however it is written.
pub(crate) fn token_content(token: &Json) -> Option<String> {
    token.as_str().or_else(|| token.get("content")?.as_str()).map(str::to_owned)
}
