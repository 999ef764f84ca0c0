//! Pairs of completions as `CPOTrainer` and `ORPOTrainer` of TRL prepare them: as text, of which prompt and completion
//! are tokenized together without the tokenizer's special tokens. Those that begin and end a text are added, to
//! conversations too.

use serde::Serialize;

use super::dpo::{PairTexts, example_of};
use super::{Dpo, Example, LeftOut, Preprocessor, SetContext};
use crate::batch::{ArraySpec, Padding};
use crate::chat::RowTexts;
use crate::error::{Error, Result};
use crate::labels::Labels;
use crate::source::Row;
use crate::tokenize::TextTokenizer;

/// The columns and settings of contrastive and of odds ratio preference optimization.
#[derive(Clone, Debug, Serialize)]
pub struct Cpo {
    /// The pairs.
    pub pairs: Dpo,
    /// The text of the token that sequences begin with.
    pub bos_token: Option<String>,
}

/// The tokens of a prompt and of its completion.
struct Sequence {
    prompt: Vec<u32>,
    completion: Vec<u32>,
}

impl Sequence {
    /// The tokens `whole` behind the token `first` and before `last`, divided where those of `prompt` end.
    fn divided(prompt: &[u32], mut whole: Vec<u32>, first: Option<u32>, last: u32) -> Self {
        let mut length = prompt.len().min(whole.len());
        // The last token of a prompt may be part of the first one of its completion.
        if !whole.starts_with(prompt) {
            length = length.saturating_sub(1);
        }
        let mut completion = whole.split_off(length);
        let mut prompt = whole;
        if let Some(first) = first
            && prompt.first() != Some(&first)
        {
            prompt.insert(0, first);
        }
        if completion.last() != Some(&last) {
            completion.push(last);
        }
        Self { prompt, completion }
    }
}

impl Preprocessor for Cpo {
    fn columns(&self) -> Vec<&str> {
        self.pairs.columns()
    }

    fn columns_of_set(&self, set: usize, available: &[String]) -> Vec<&str> {
        self.pairs.columns_of_set(set, available)
    }

    fn columns_among(&self, available: &[String]) -> Vec<&str> {
        self.pairs.columns_among(available)
    }

    fn check(&self, tokenizer: &dyn TextTokenizer) -> Result<()> {
        self.pairs.check(tokenizer)
    }

    /// A row whose prompt alone fills `max_length` makes no example.
    fn encode(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Vec<Example>> {
        let texts = self.pairs.row_texts(row, context);
        if self.pairs.layouts.is_some() {
            let pair = self.pairs.pair(&texts)?;
            return Ok(pair.and_then(|pair| self.pairs.example(pair)).into_iter().collect());
        }
        let pair = self.pairs.texts(&texts)?;
        Ok(self.example(self.sequences(&texts, &pair)?).into_iter().collect())
    }

    fn arrays(&self, labels: &Labels, padding: &Padding) -> Vec<ArraySpec> {
        self.pairs.arrays(labels, padding)
    }

    fn sequences_per_row(&self) -> usize {
        2
    }

    fn why_left_out(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Option<LeftOut>> {
        self.pairs.why_left_out(row, context)
    }
}

impl Cpo {
    /// The tokens of the chosen and of the rejected completion, each behind its prompt.
    fn sequences(&self, texts: &RowTexts<'_>, pair: &PairTexts) -> Result<[Sequence; 2]> {
        let prompt = texts.ids_as_it_is(shared_prompt(pair))?;
        let [chosen, rejected] = &pair.wholes;
        let wholes = [texts.ids_as_it_is(chosen)?, texts.ids_as_it_is(rejected)?];
        let first = texts.token_id(self.bos_token.as_deref())?;
        let last = texts.token_id(texts.eos_token)?.ok_or_else(no_end)?;
        Ok(wholes.map(|whole| Sequence::divided(&prompt, whole, first, last)))
    }

    /// The example of two sequences, cut to `max_length`; None where a prompt alone fills it.
    fn example(&self, sequences: [Sequence; 2]) -> Option<Example> {
        let length = self.pairs.max_length as usize;
        if sequences.iter().any(|it| it.prompt.len() >= length) {
            return None;
        }
        let is_longer = |it: &Sequence| it.prompt.len() + it.completion.len() > length;
        let truncated = sequences.iter().any(is_longer);
        let pair = sequences.map(|Sequence { prompt, completion }| {
            let tokens = prompt.len();
            let mut ids = [prompt, completion].concat();
            ids.truncate(length);
            (ids, tokens)
        });
        Some(example_of(pair, truncated))
    }
}

/// The prompt as far as both completions are behind it: templates may render it otherwise where an answer follows.
fn shared_prompt(pair: &PairTexts) -> &str {
    let mut prompt = pair.prompt.as_str();
    for whole in &pair.wholes {
        let pairs = prompt.char_indices().zip(whole.chars());
        let shared = pairs.take_while(|((_, one), other)| one == other).last();
        let end = shared.map_or(0, |((at, letter), _)| at + letter.len_utf8());
        prompt = &prompt[..end];
    }
    prompt
}

fn no_end() -> Error {
    let message = "is required, since tokenizer_config.json names no token that ends a text, or one that is not a token";
    Error::BadOption { field: "data.eos_token", message: message.to_owned() }
}
