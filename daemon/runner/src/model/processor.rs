//! The processor that turns the rows of a job into inputs of its model: a tokenizer, or an image processor.

use std::path::Path;
use std::sync::Arc;

use traind_job_file::{JobFile, TaskName};
use traind_loader::{
    HuggingFaceTokenizer, ModelInputs, NoTokenizer, Padding, TextTokenizer, eos_token,
};

use super::ModelFolder;
use crate::data::lengths;
use crate::error::RunResult;
use crate::reporting::Journal;

/// The tokenizer of a job, if its rows are texts. Images are processed as their task says.
pub(crate) struct Processor {
    tokenizer: Option<Arc<HuggingFaceTokenizer>>,
}

impl Processor {
    /// Opens the tokenizer, which cuts rows to at most `limit` tokens, of a job whose rows are texts.
    pub(crate) fn open(
        folder: &ModelFolder,
        job: &JobFile,
        journal: &Journal,
        limit: u32,
        positions: u32,
    ) -> RunResult<Processor> {
        if job.model.task == TaskName::ImageClassification {
            return Ok(Processor { tokenizer: None });
        }
        let tokenizer = folder.tokenizer(job, journal, limit, positions)?;
        folder.check_segments(job, &tokenizer)?;
        Ok(Processor { tokenizer: Some(Arc::new(tokenizer)) })
    }

    /// Changes the processor to one of texts of which `first` leaves its tokens.
    pub(crate) fn behind(self, first: Arc<HuggingFaceTokenizer>) -> RunResult<Processor> {
        let own = self.tokenizer.and_then(Arc::into_inner);
        let tokenizer = own.map(|tokenizer| tokenizer.behind(first)).transpose()?;
        Ok(Processor { tokenizer: tokenizer.map(Arc::new) })
    }

    /// The tokenizer, of rows that are texts.
    pub(crate) fn into_tokenizer(self) -> Option<Arc<HuggingFaceTokenizer>> {
        self.tokenizer
    }

    /// The tokenizer as the loader takes it.
    pub(crate) fn text(&self) -> Arc<dyn TextTokenizer> {
        match &self.tokenizer {
            Some(tokenizer) => Arc::clone(tokenizer) as Arc<dyn TextTokenizer>,
            None => Arc::new(NoTokenizer),
        }
    }

    /// How rows are padded; images are of one size.
    pub(crate) fn padding(&self, job: &JobFile, token_id: u32) -> Padding {
        match &self.tokenizer {
            Some(tokenizer) => lengths::padding(job, tokenizer, token_id),
            None => Padding::behind(token_id),
        }
    }

    /// The tokenizer's token that pads rows, of reward models else that which ends texts, as in TRL: they find the end
    /// of a row by it.
    pub(super) fn padding_token(&self, job: &JobFile, folder: &Path) -> RunResult<Option<u32>> {
        let own = self.text().pad_token_id();
        if own.is_some() || job.model.task != TaskName::Reward {
            return Ok(own);
        }
        let last = match &job.data.eos_token {
            Some(token) => Some(token.clone()),
            None => eos_token(folder)?,
        };
        Ok(last.and_then(|token| self.token_id(&token)))
    }

    /// The inputs that a model is given.
    pub(super) fn inputs(&self, job: &JobFile) -> ModelInputs {
        let none =
            ModelInputs { token_type_ids: false, attention_mask: false, position_ids: false };
        let own = self.tokenizer.as_deref().map_or(none, HuggingFaceTokenizer::model_inputs);
        ModelInputs { position_ids: job.separates_texts(), ..own }
    }

    /// The id of a token of the job's own.
    pub(super) fn token_id(&self, token: &str) -> Option<u32> {
        self.tokenizer.as_ref()?.token_id(token)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use traind_loader::TokenizerOptions;
    use traind_models::ModelConfig;

    use super::*;

    const PAIRS: &str = "name: a\nmodel: {name_or_path: ./a, task: sequence-classification}\n\
                         data: {train: a.csv, text: one, text_pair: other}\noutput_dir: out";

    /// DeBERTa's config has 0 segments, since its tokens have none.
    #[test]
    fn second_texts_need_their_segment_where_a_model_has_segments() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../loader/tests/fixtures/token_parity/wordpiece");
        let tokenizer = HuggingFaceTokenizer::open(&path, &TokenizerOptions::default()).unwrap();
        let job = JobFile::parse(PAIRS, Path::new("/")).unwrap().job;
        let check = |keys: &Value| {
            let keys = keys.as_object().unwrap().clone();
            let config = ModelConfig::new("config.json", keys);
            let folder = ModelFolder { path: path.clone(), config };
            folder.check_segments(&job, &tokenizer).map_err(|error| error.to_string())
        };
        for fitting in [json!({}), json!({"type_vocab_size": 0}), json!({"type_vocab_size": 2})] {
            assert_eq!(check(&fitting), Ok(()), "{fitting}");
        }
        let error = check(&json!({"type_vocab_size": 1})).unwrap_err();
        let expect = "type_vocab_size: the tokenizer gives second texts segment 1, and there are 1";
        assert!(error.ends_with(expect), "{error}");
    }
}
