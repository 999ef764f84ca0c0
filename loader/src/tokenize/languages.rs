//! The languages of texts, whose codes mBART's classes put beside sources and targets.

use tokenizers::PostProcessorWrapper;

use super::HuggingFaceTokenizer;
use super::classes;
use crate::error::{Error, Result};

impl HuggingFaceTokenizer {
    /// Puts the codes of languages beside sources and targets, as mBART's classes do with `src_lang` and `tgt_lang`.
    /// Other classes have none.
    pub fn with_languages(mut self, source: &str, target: &str) -> Result<Self> {
        if self.class.has_languages() {
            let of = |field, language: &str| self.of_language(field, language);
            let source = of("data.source_lang", source)?;
            self.target_post_processor = Some(of("data.target_lang", target)?);
            self.post_processor = Some(source);
            self.set_max_length(self.max_length)?;
        }
        Ok(self)
    }

    /// Targets have the language that the settings give them, else that of the sources.
    pub(super) fn set_target_language(&mut self) -> Result<()> {
        if let Some(target) = self.settings.text("tgt_lang").filter(|_| self.class.has_languages())
        {
            self.target_post_processor = Some(self.of_language("tgt_lang", target)?);
        }
        Ok(())
    }

    fn of_language(&self, field: &'static str, language: &str) -> Result<PostProcessorWrapper> {
        if self.tokenizer.token_to_id(language).is_none() {
            let codes = self.class.languages(&self.tokenizer).join(", ");
            let message = format!("the tokenizer has no language {language}; it has {codes}");
            return Err(Error::BadOption { field, message });
        }
        let json =
            classes::language_processor(self.class, &self.tokenizer, &self.settings, language);
        serde_json::from_value(json).map_err(|error| Error::bad_tokenizer(&self.file, error))
    }
}
