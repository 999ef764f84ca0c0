//! Rows that are tokenized already, as `datasets` saves them after `map`, for every task of texts.
//! They are recognized by their columns, and are trained on as the Trainer and TRL do: as they are.

#[cfg(test)]
mod tests;

use serde::Serialize;

use super::dpo::{Dpo, Pair};
use super::masked_lm::{SPECIAL_TOKEN, STARTS_WORD, parts_of_words};
use super::seq2seq_lm::Seq2SeqLm;
use super::sft::Sft;
use super::{
    Example, LeftOut, PackingStrategy, Preprocessor, ROW_LABELS, SetContext, TaskSpec,
    token_target_arrays,
};
use crate::batch::{ArraySpec, Padding, Target, TargetPadding};
use crate::error::{Error, Result};
use crate::labels::{IGNORED_LABEL, LabelSpec, Labels, RowLabel, TokenLabel};
use crate::layouts::Tokens;
use crate::source::Row;
use crate::token_row::{
    self, ATTENTION_MASK, INPUT_IDS, LABELS, TOKEN_TYPE_IDS, TokenLimits, TokenRow,
};
use crate::tokenize::TextTokenizer;

/// The columns of a pair of completions: those that TRL's own tokenizing leaves.
const PAIR: [&str; 3] = ["prompt_ids", "chosen_ids", "rejected_ids"];
/// The characters of each token, which `return_offsets_mapping` of tokenizers leaves.
const OFFSET_MAPPING: &str = "offset_mapping";
const ASSISTANT_MASKS: &str = "assistant_masks";
const COMPLETION_MASK: &str = "completion_mask";
const START_POSITIONS: &str = "start_positions";
const END_POSITIONS: &str = "end_positions";

/// A task whose rows are tokens.
#[derive(Clone, Debug, Serialize)]
pub struct Tokenized {
    task: Box<TaskSpec>,
    /// The column of labels, for tasks whose labels are classes or numbers.
    label: Option<LabelSpec>,
    /// Whether rows have the characters of each token, by which words are known.
    has_offsets: bool,
    /// Whether rows have a prompt and a completion beside their tokens.
    has_completions: bool,
    limits: TokenLimits,
}

impl Tokenized {
    /// The same task for files with the columns `available`; None if these hold no tokens.
    pub(super) fn of(task: &TaskSpec, available: &[String], limits: TokenLimits) -> Option<Self> {
        let has = |column: &str| available.iter().any(|name| name == column);
        let holds_tokens = match task {
            TaskSpec::Sft(task) => task.layouts.is_none() && has(INPUT_IDS),
            TaskSpec::Dpo(task) => task.layouts.is_none() && PAIR.iter().all(|it| has(it)),
            // An evaluation finds answers in the text.
            TaskSpec::QuestionAnswering(task) => {
                has(INPUT_IDS) && !(has(&task.question) && has(&task.context))
            }
            TaskSpec::Reward(_) | TaskSpec::Cpo(_) | TaskSpec::Kto(_) => false,
            TaskSpec::Embedding(_)
            | TaskSpec::Reranker(_)
            | TaskSpec::ImageClassification(_)
            | TaskSpec::Tokenized(_) => false,
            _ => has(INPUT_IDS),
        };
        holds_tokens.then(|| {
            let label = task.preprocessor().labels().cloned();
            let label =
                label.map(|label| LabelSpec { column: label_column(task, &label, has), ..label });
            let has_completions = match task {
                TaskSpec::Sft(task) => has(&task.prompt) && has(&task.completion),
                _ => false,
            };
            let task = Box::new(task.clone());
            let has_offsets = has(OFFSET_MAPPING);
            Self { task, label, has_offsets, has_completions, limits }
        })
    }

    /// Whether it is known which tokens are parts of one word.
    pub(crate) fn knows_words(&self) -> bool {
        self.has_offsets
    }

    /// Whether rows are cut to `data.max_length`, as texts are.
    pub(crate) fn is_cut(&self) -> bool {
        matches!(*self.task, TaskSpec::Sft(_) | TaskSpec::Dpo(_))
    }

    /// The columns on which the lengths of a row depend.
    pub(crate) fn columns_of_lengths(&self) -> Vec<&'static str> {
        let target = matches!(*self.task, TaskSpec::Seq2SeqLm(_)).then_some(LABELS);
        [INPUT_IDS, ATTENTION_MASK].into_iter().chain(target).collect()
    }

    /// The tokens of a row that is not cut, and those of its target.
    pub(crate) fn lengths(
        &self,
        row: &Row<'_>,
        tokenizer: &dyn TextTokenizer,
    ) -> Result<[usize; 2]> {
        let tokens = self.tokens(row, tokenizer)?;
        let target = match &*self.task {
            TaskSpec::Seq2SeqLm(task) => {
                task.target.as_ref().map(|_| tokens.target(LABELS, None, task.keeps_end()))
            }
            _ => None,
        };
        Ok([tokens.ids().len(), target.transpose()?.map_or(0, |target| target.len())])
    }

    /// The tokens of a row, with the padding where losses are taken over it.
    fn tokens<'a, 'row>(
        &self,
        row: &'a Row<'row>,
        tokenizer: &dyn TextTokenizer,
    ) -> Result<TokenRow<'a, 'row>> {
        match *self.task {
            TaskSpec::QuestionAnswering(_) => TokenRow::with_padding(row, tokenizer),
            _ => TokenRow::read(row, tokenizer),
        }
    }

    /// The columns that rows must have, besides that of labels.
    fn needed(&self) -> Vec<&'static str> {
        match &*self.task {
            TaskSpec::Dpo(_) => PAIR.to_vec(),
            TaskSpec::QuestionAnswering(task) if task.answers.is_some() => {
                vec![INPUT_IDS, START_POSITIONS, END_POSITIONS]
            }
            TaskSpec::Seq2SeqLm(task) if task.target.is_some() => vec![INPUT_IDS, LABELS],
            _ => vec![INPUT_IDS],
        }
    }

    /// The columns that are read where files have them.
    fn optional(&self) -> &'static [&'static str] {
        match &*self.task {
            TaskSpec::Dpo(_) => &[],
            // TRL reads no `attention_mask`.
            TaskSpec::Sft(_) => &[LABELS, COMPLETION_MASK, ASSISTANT_MASKS],
            TaskSpec::CausalLm(_) => &[ATTENTION_MASK, TOKEN_TYPE_IDS, LABELS],
            TaskSpec::MaskedLm(_) => &[ATTENTION_MASK, TOKEN_TYPE_IDS, OFFSET_MAPPING],
            _ => &[ATTENTION_MASK, TOKEN_TYPE_IDS],
        }
    }
}

/// The column of labels among those that files have. The labels of words stand beside their tokens
/// under another name, as scripts of token classification leave them.
fn label_column(task: &TaskSpec, label: &LabelSpec, has: impl Fn(&str) -> bool) -> String {
    let given = label.column.as_str();
    let candidates: Vec<&str> = match task {
        TaskSpec::TokenClassification(_) => vec![LABELS, given],
        _ => std::iter::once(given).chain(ROW_LABELS).collect(),
    };
    candidates.into_iter().find(|column| has(column)).unwrap_or(given).to_owned()
}

impl Preprocessor for Tokenized {
    fn columns(&self) -> Vec<&str> {
        let label = self.label.as_ref().map(|label| label.column.as_str());
        self.needed().into_iter().chain(label).collect()
    }

    fn columns_among(&self, available: &[String]) -> Vec<&str> {
        let has = |column: &&&str| available.iter().any(|name| name == **column);
        self.columns().into_iter().chain(self.optional().iter().filter(has).copied()).collect()
    }

    fn check(&self, tokenizer: &dyn TextTokenizer) -> Result<()> {
        match &*self.task {
            // Contexts are windows already, and conversations rendered.
            TaskSpec::QuestionAnswering(_) | TaskSpec::Sft(_) => Ok(()),
            task => task.preprocessor().check(tokenizer),
        }
    }

    fn labels(&self) -> Option<&LabelSpec> {
        self.label.as_ref()
    }

    fn encode(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Vec<Example>> {
        let tokens = || self.tokens(row, context.tokenizer)?.at_most(self.limits.row);
        Ok(match &*self.task {
            TaskSpec::Dpo(task) => return dpo(task, row, context.tokenizer),
            TaskSpec::Sft(task) => {
                let row = self.targets(task, row, context.tokenizer)?;
                task.example(row, false).into_iter().collect()
            }
            TaskSpec::TokenClassification(_) => vec![self.words(tokens()?, context)?],
            TaskSpec::QuestionAnswering(task) => {
                let tokens = tokens()?;
                let label = task.answers.is_some().then(|| span(&tokens)).transpose()?;
                vec![Example { label, ..example(tokens) }]
            }
            TaskSpec::MaskedLm(_) => {
                let tokens = tokens()?;
                let masking = self.parts(&tokens, context.tokenizer)?;
                vec![Example { masking, ..example(tokens) }]
            }
            TaskSpec::CausalLm(_) => vec![causal_lm(tokens()?, context.tokenizer)?],
            TaskSpec::Seq2SeqLm(task) => vec![self.sources(task, tokens()?)?],
            _ => {
                let label = context.labels.as_ref().map(|labels| labels.read(row)).transpose()?;
                vec![Example { label, ..example(tokens()?) }]
            }
        })
    }

    fn arrays(&self, labels: &Labels, padding: &Padding) -> Vec<ArraySpec> {
        match &*self.task {
            TaskSpec::CausalLm(_) => token_target_arrays(padding),
            task => task.preprocessor().arrays(labels, padding),
        }
    }

    fn target(&self, ids: Vec<i32>, padding: TargetPadding) -> Target {
        self.task.preprocessor().target(ids, padding)
    }

    fn packing(&self) -> Option<(PackingStrategy, u32)> {
        self.task.preprocessor().packing()
    }

    fn why_left_out(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Option<LeftOut>> {
        Ok(match &*self.task {
            TaskSpec::Dpo(_) => Some(LeftOut::TooLong),
            TaskSpec::Sft(task) => {
                let row = self.targets(task, row, context.tokenizer)?;
                Some(if row.has_target() { LeftOut::TooLong } else { LeftOut::NoTarget })
            }
            _ => None,
        })
    }

    fn sequences_per_row(&self) -> usize {
        self.task.preprocessor().sequences_per_row()
    }
}

impl Tokenized {
    /// Tokens with a class each. Those without a class are special, or continue a word.
    fn words(&self, tokens: TokenRow<'_, '_>, context: &SetContext<'_>) -> Result<Example> {
        let (Some(reader), Some(label)) = (&context.labels, &self.label) else {
            let masking = parts_as_words(&tokens, context.tokenizer);
            return Ok(Example { masking, ..example(tokens) });
        };
        let numbers = reader.read_words(tokens.row())?;
        let numbers = tokens.without_padding(&label.column, numbers, Option::is_none)?;
        let masking = numbers.iter().map(|it| it.map_or(SPECIAL_TOKEN, |_| STARTS_WORD)).collect();
        let class = |number| TokenLabel { number, continues: false };
        let classes = numbers.into_iter().map(|number: Option<u32>| number.map(class)).collect();
        let label = Some(RowLabel::Tokens(classes));
        Ok(Example { label, masking, ..example(tokens) })
    }

    /// Tokens to read and tokens to write.
    fn sources(&self, task: &Seq2SeqLm, tokens: TokenRow<'_, '_>) -> Result<Example> {
        let target = || tokens.target(LABELS, self.limits.target, task.keeps_end());
        let target = task.target.as_ref().map(|_| target());
        let target = target.transpose()?;
        Ok(Example { target, ..example(tokens) })
    }

    /// The parts of tokens in their words, each a word of its own where words are not known.
    fn parts(&self, tokens: &TokenRow<'_, '_>, tokenizer: &dyn TextTokenizer) -> Result<Vec<u8>> {
        if !self.has_offsets {
            return Ok(parts_as_words(tokens, tokenizer));
        }
        let offsets = tokens.offsets(OFFSET_MAPPING)?;
        let tokens = tokens.ids().iter().zip(offsets);
        let word = |(id, range): (&u32, _)| (!tokenizer.is_special_token(*id)).then_some(range);
        Ok(parts_of_words(tokens.map(word)))
    }

    /// Tokens whose targets are in `labels`, else those that no mask leaves out. By default, TRL reads
    /// `completion_mask` only of rows that have a prompt and a completion beside their tokens.
    fn targets(&self, task: &Sft, row: &Row<'_>, tokenizer: &dyn TextTokenizer) -> Result<Tokens> {
        let tokens = TokenRow::as_it_is(row, tokenizer)?;
        let completion_only = task.completion_only_loss.unwrap_or(self.has_completions);
        let labels = match tokens.targets(LABELS)? {
            Some(labels) => labels,
            None if task.assistant_only_loss && tokens.numbers(ASSISTANT_MASKS)?.is_none() => {
                let message = format!(
                    "data.assistant_only_loss needs the column {ASSISTANT_MASKS:?} or {LABELS:?} of \
                     rows that are tokens"
                );
                return Err(Error::BadRow { at: row.location(), message });
            }
            None => unmasked(&tokens, completion_only)?,
        };
        Ok(Tokens { input_ids: tokens.ids().to_vec(), labels })
    }
}

/// The parts of tokens whose words are not known.
fn parts_as_words(tokens: &TokenRow<'_, '_>, tokenizer: &dyn TextTokenizer) -> Vec<u8> {
    let part = |id: &u32| if tokenizer.is_special_token(*id) { SPECIAL_TOKEN } else { STARTS_WORD };
    tokens.ids().iter().map(part).collect()
}

/// The first and the last token of the answer.
fn span(tokens: &TokenRow<'_, '_>) -> Result<RowLabel> {
    let position = |column| tokens.position(column);
    Ok(RowLabel::Span(position(START_POSITIONS)?, position(END_POSITIONS)?))
}

/// An example of the tokens alone.
fn example(tokens: TokenRow<'_, '_>) -> Example {
    let (encoded, unattended) = tokens.into_parts();
    Example { encoded, unattended, ..Example::default() }
}

/// Tokens with their targets. Without the column `labels`, they are their own targets, except padding
/// tokens, as with `DataCollatorForLanguageModeling`.
fn causal_lm(tokens: TokenRow<'_, '_>, tokenizer: &dyn TextTokenizer) -> Result<Example> {
    let pad = tokenizer.pad_token_id();
    let own = |id: &u32| if Some(*id) == pad { IGNORED_LABEL } else { *id as i32 };
    let given = tokens.targets(LABELS)?;
    let labels = given.unwrap_or_else(|| tokens.ids().iter().map(own).collect());
    Ok(Example { label: Some(RowLabel::TokenIds(labels)), ..example(tokens) })
}

fn unmasked(tokens: &TokenRow<'_, '_>, completion_only_loss: bool) -> Result<Vec<i32>> {
    let mut labels: Vec<i32> = tokens.ids().iter().map(|id| *id as i32).collect();
    for (column, applies) in [(COMPLETION_MASK, completion_only_loss), (ASSISTANT_MASKS, true)] {
        let mask = if applies { tokens.numbers(column)? } else { None };
        let masked = labels.iter_mut().zip(mask.into_iter().flatten()).filter(|(_, bit)| *bit == 0);
        masked.for_each(|(label, _)| *label = IGNORED_LABEL);
    }
    Ok(labels)
}

/// A prompt with its two completions.
fn dpo(task: &Dpo, row: &Row<'_>, tokenizer: &dyn TextTokenizer) -> Result<Vec<Example>> {
    let ids = |column| token_row::ids(row, column, tokenizer.vocab_size());
    let [prompt, chosen, rejected] = PAIR.map(ids);
    let prompt = prompt?;
    let behind = |completion: Vec<u32>| [prompt.as_slice(), &completion].concat();
    let (chosen, rejected) = (behind(chosen?), behind(rejected?));
    Ok(task.example(Pair { prompt, chosen, rejected }).into_iter().collect())
}
