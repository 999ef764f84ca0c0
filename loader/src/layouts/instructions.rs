//! Prompts made of an instruction and its input, as axolotl's `alpaca` types make them: prompt and
//! answer are tokenized apart, and the answer ends with the token that ends texts.

use serde::Serialize;

use super::format_text::filled;
use super::{RowLayout, Tokens};
use crate::chat::RowTexts;
use crate::error::{Error, Result};

const FIELD: &str = "data.prompt_template";
const INPUT: &str = "{input}";

/// The texts around instruction and input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PromptFormat {
    /// The system's text of rows with an input.
    pub system_prompt: String,
    /// The system's text of rows without an input.
    pub system_no_input_prompt: String,
    /// Around the system's text: `{system}`.
    pub system_format: String,
    /// Around `{instruction}` and `{input}`.
    pub format: String,
    /// Around `{instruction}` of rows without an input.
    pub no_input_format: String,
    /// Whether a column of rows has the system's text, which then replaces the others.
    pub reads_system: bool,
}

/// The prompts that have a name in axolotl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptStyle {
    /// Alpaca's headings, `### Instruction:` and `### Response:`.
    Instruct,
    /// The names USER and ASSISTANT before turns.
    Chat,
    /// The tokens `<|im_start|>` and `<|im_end|>` around turns.
    Chatml,
    /// The tokens of Phi-3 around turns.
    Phi,
}

impl PromptFormat {
    /// The prompts of a style, which open with the sentences of Stanford's Alpaca.
    pub fn of_style(style: PromptStyle) -> Self {
        let [format, no_input_format, system_format] = match style {
            PromptStyle::Instruct => [
                "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:\n",
                "### Instruction:\n{instruction}\n\n### Response:\n",
                "{system}\n\n",
            ],
            PromptStyle::Chat => [
                "USER: {instruction}\n{input}\nASSISTANT:",
                "USER: {instruction}\nASSISTANT:",
                "SYSTEM: {system}\n",
            ],
            PromptStyle::Chatml => [
                "<|im_start|>user\n{instruction}\n{input}<|im_end|>\n<|im_start|>assistant\n",
                "<|im_start|>user\n{instruction}<|im_end|>\n<|im_start|>assistant\n",
                "<|im_start|>system\n{system}<|im_end|>\n",
            ],
            PromptStyle::Phi => [
                "<|user|>\n{instruction}<|end|>{input}<|assistant|>",
                "<|user|>\n{instruction}<|end|>\n<|assistant|>\n",
                "<|system|>\n{system}<|end|>\n",
            ],
        };
        let begin = "Below is an instruction that describes a task";
        let end = "Write a response that appropriately completes the request.";
        Self {
            system_prompt: format!(
                "{begin}, paired with an input that provides further context. {end}"
            ),
            system_no_input_prompt: format!("{begin}. {end}"),
            system_format: system_format.to_owned(),
            format: format.to_owned(),
            no_input_format: no_input_format.to_owned(),
            reads_system: false,
        }
    }

    /// Fails where a text has a place that no row fills.
    pub(super) fn check(&self) -> Result<()> {
        self.prompt("", "", "").and_then(|_| self.prompt("a", "a", "a")).map(drop)
    }

    pub(super) fn encode(
        &self,
        layout: &RowLayout,
        texts: &RowTexts<'_>,
        bos_token: Option<&str>,
        max_length: u32,
        train_on_inputs: bool,
    ) -> Result<Tokens> {
        let fields = &layout.fields;
        let text = |column: &str| layout.text(texts, column);
        let system = if self.reads_system { text(&fields.system)? } else { "" };
        let prompt = self.prompt(system, text(&fields.instruction)?, text(&fields.input)?)?;
        let mut tokens = Tokens::default();
        tokens.push(&texts.encode_up_to(&prompt, max_length)?, train_on_inputs);
        let answer = answer(texts, text(&fields.output)?, bos_token, max_length)?;
        tokens.push(&answer, true);
        Ok(tokens)
    }

    fn prompt(&self, system: &str, instruction: &str, input: &str) -> Result<String> {
        let bad = |problem: String| Error::BadOption {
            field: FIELD,
            message: format!(
                "`{problem}` is not a place that rows fill: {{instruction}}, {INPUT} and {{system}} are"
            ),
        };
        let (own, format) = match input {
            "" => (&self.system_no_input_prompt, &self.no_input_format),
            _ => (&self.system_prompt, &self.format),
        };
        let system = if system.is_empty() { own } else { system };
        let mut prompt = match system {
            "" => String::new(),
            system => filled(&self.system_format, &[("system", system)]).map_err(bad)?,
        };
        let values = [("instruction", instruction), ("input", input)];
        prompt.push_str(&filled(format, &values).map_err(bad)?);
        Ok(prompt)
    }
}

/// The tokens of an answer, without the one that texts begin with.
fn answer(
    texts: &RowTexts<'_>,
    text: &str,
    bos_token: Option<&str>,
    max_length: u32,
) -> Result<Vec<u32>> {
    let mut ids = texts.encode_up_to(text, max_length)?;
    let eos_id = texts.token_id(texts.eos_token)?;
    if let Some(eos_id) = eos_id
        && !ids.is_empty()
        && ids.last() != Some(&eos_id)
        && ids.len() < max_length as usize
    {
        ids.push(eos_id);
    }
    if ids.first().copied() == texts.token_id(bos_token)? && !ids.is_empty() {
        ids.remove(0);
    }
    Ok(ids)
}
