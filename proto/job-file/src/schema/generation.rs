//! `train.generation_config`: settings of generated texts, under the names of transformers' GenerationConfig.

use crate::section::{above, section};
use crate::values::EarlyStopping;

section! {
    /// Settings for `predict_with_generate`, under the names of transformers' GenerationConfig. Each
    /// replaces the model's own; the model folder in `output_dir` keeps the model's.
    pub struct GenerationConfig {
        /// End of a beam search: `true` when there are as many complete texts as beams, `false` when a
        /// better text is unlikely, `never` when none is possible.
        early_stopping: Option<EarlyStopping> = None;
        /// Exponent of the length by which a beam's score is divided; above 0, long texts are
        /// preferred.
        length_penalty: Option<f64> = None;
        /// No sequence of this many tokens occurs twice in a text; 0 allows all.
        no_repeat_ngram_size: Option<u32> = None;
        /// Factor by which the scores of tokens that occurred are lowered; 1 changes nothing.
        repetition_penalty: Option<f64> = None, in above(0.0);
        /// Minimum length of a text in tokens, including the decoder's start token.
        min_length: Option<u32> = None;
        /// Minimum number of tokens after the decoder's start token.
        min_new_tokens: Option<u32> = None;
        /// Maximum number of tokens after the decoder's start token, instead of
        /// `generation_max_length`.
        max_new_tokens: Option<u32> = None, in 1.0..=1_048_576.0;
        /// Draw tokens instead of choosing the most likely ones; not with several beams.
        do_sample: Option<bool> = None;
        /// Divisor of the scores before tokens are drawn.
        temperature: Option<f64> = None, in above(0.0);
        /// Number of the most likely tokens to draw from; 0 for all.
        top_k: Option<u32> = None;
        /// Draw from the most likely tokens whose probabilities add up to this.
        top_p: Option<f64> = None, in 0.0..=1.0;
        /// First token after the decoder's start token, such as mBART's target language.
        forced_bos_token_id: Option<u32> = None;
        /// Tokens that no text contains.
        suppress_tokens: Option<Vec<u32>> = None;
        /// Tokens that no text begins with.
        begin_suppress_tokens: Option<Vec<u32>> = None;
    }
}

impl GenerationConfig {
    /// The settings that are given, by the names of `generation_config.json`.
    pub fn given(&self) -> serde_json::Map<String, serde_json::Value> {
        let Ok(serde_json::Value::Object(mut settings)) = serde_json::to_value(self) else {
            return serde_json::Map::new();
        };
        settings.retain(|_, value| !value.is_null());
        settings
    }
}
