//! Chat templates: conversations to text as `apply_chat_template` of transformers renders them.
//!
//! Templates come with models from elsewhere. Each rendering has a budget of steps and of bytes and a
//! deadline, and a template has no access to files or to the environment.

mod deadline;
mod environment;
mod files;
mod json;
mod marks;
mod methods;
mod python;
mod row_texts;
#[cfg(test)]
mod tests;
mod time;
mod values;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use minijinja::{Environment, Value as Jinja};
use serde::{Serialize, Serializer};

pub(crate) use row_texts::{RowTexts, shared_tokens, template_columns};

use crate::guard::guard;
use crate::{ChatProblem, Error, Result, TokenSpan, Value};

/// The template of a model's tokenizer. Clones share it.
#[derive(Clone)]
pub struct ChatTemplate {
    file: PathBuf,
    source: String,
    special_tokens: BTreeMap<String, String>,
    environment: Arc<Environment<'static>>,
}

/// The inputs of a template besides the messages.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChatOptions<'row> {
    /// Appends the beginning of an answer (`add_generation_prompt`).
    pub prompts: bool,
    /// Finds the text of the assistant (`return_assistant_tokens_mask`).
    pub marks: bool,
    /// Tools as JSON schemas, or such a list as text.
    pub tools: Option<&'row Value>,
    /// Further variables of the template (`chat_template_kwargs`).
    pub variables: Option<&'row Value>,
}

/// A rendered conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderedChat {
    pub text: String,
    /// The characters inside `{% generation %}` if [`ChatOptions::marks`] is set.
    pub generated: Vec<Range<u32>>,
}

/// The token that ends a text, if the tokenizer in `folder` names one.
pub fn eos_token(folder: &Path) -> Result<Option<String>> {
    Ok(files::special_tokens(folder)?.remove(files::EOS_TOKEN))
}

impl RenderedChat {
    /// Whether each token is the assistant's, as `apply_chat_template` finds out: from the token of
    /// the first character to that of the last, or to the end where the last has none.
    pub fn generated_tokens(&self, tokens: &[TokenSpan]) -> Vec<bool> {
        let mut are_generated = vec![false; tokens.len()];
        let token_of =
            |place: u32| tokens.iter().position(|token| (token.start..token.end).contains(&place));
        for text in &self.generated {
            let Some(first) = token_of(text.start) else { break };
            let last = text.end.checked_sub(1).and_then(token_of).filter(|&last| last > 0);
            let behind = last.map_or(tokens.len(), |last| last + 1);
            are_generated[first.min(behind)..behind].fill(true);
        }
        are_generated
    }
}

impl ChatTemplate {
    /// Reads the template of a tokenizer's folder; None where it has none. `eos_token` replaces the
    /// tokenizer's own. Fails where the template is not valid Jinja.
    pub fn open(folder: &Path, eos_token: Option<&str>) -> Result<Option<Self>> {
        let Some((file, source)) = files::template(folder)? else { return Ok(None) };
        let mut special_tokens = files::special_tokens(folder)?;
        if let Some(token) = eos_token {
            special_tokens.insert(files::EOS_TOKEN.to_owned(), token.to_owned());
        }
        Self::new(&file, source, special_tokens).map(Some)
    }

    fn new(file: &Path, source: String, special_tokens: BTreeMap<String, String>) -> Result<Self> {
        let environment = guard(file, "parse the chat template", || {
            environment::of_template(&source)
                .map_err(|error| Error::bad_template(file, environment::message(&error)))
        })?;
        let environment = Arc::new(environment);
        Ok(Self { file: file.to_path_buf(), source, special_tokens, environment })
    }

    /// Returns true if it says which text is the assistant's (`{% generation %}`).
    pub fn marks_generation(&self) -> bool {
        marks::has_tags(&self.source)
    }

    /// The file that it was read from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Renders a message of the user, and the beginning of its answer. The text has all special tokens.
    pub fn render_prompt(&self, content: &str) -> Result<String> {
        let field = |name: &str, text: &str| (name.to_owned(), Value::Text(text.to_owned()));
        let message = Value::Struct(vec![field("role", "user"), field("content", content)]);
        let options = ChatOptions { prompts: true, ..ChatOptions::default() };
        let rendered = self.render(&[&message], &options);
        Ok(rendered.map_err(|problem| Error::bad_template(&self.file, problem))?.text)
    }

    /// Renders a conversation, which is a list of messages.
    pub fn render(
        &self,
        messages: &[&Value],
        options: &ChatOptions<'_>,
    ) -> Result<RenderedChat, ChatProblem> {
        let variables = self.variables(messages, options)?;
        let (file, environment) = (self.file.clone(), Arc::clone(&self.environment));
        // `guard` itself fails for a panic alone.
        let rendered = deadline::within(move || {
            guard(&file, "render the chat template", || {
                Ok(environment::render(&environment, variables))
            })
        })?;
        let text = match rendered {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => {
                return Err(ChatProblem::Template { message: environment::message(&error) });
            }
            Err(panicked) => return Err(ChatProblem::Template { message: panicked.to_string() }),
        };
        Ok(match options.marks {
            true => marks::without_marks(&text),
            false => RenderedChat { text, generated: Vec::new() },
        })
    }

    fn variables(
        &self,
        messages: &[&Value],
        options: &ChatOptions<'_>,
    ) -> Result<BTreeMap<String, Jinja>, ChatProblem> {
        let conversation = values::conversation(messages)?;
        if options.marks && messages.iter().any(|message| values::contains(message, marks::is_mark))
        {
            return Err(ChatProblem::Mark);
        }
        let mut variables: BTreeMap<String, Jinja> = BTreeMap::new();
        let tokens = self.special_tokens.iter();
        variables.extend(tokens.map(|(name, token)| (name.clone(), Jinja::from(token.as_str()))));
        variables.extend(values::variables(options.variables)?);
        variables.insert("messages".to_owned(), conversation);
        variables.insert("tools".to_owned(), values::tools(options.tools)?);
        variables.insert("documents".to_owned(), Jinja::from(()));
        variables.insert("add_generation_prompt".to_owned(), options.prompts.into());
        variables.insert(marks::VARIABLE.to_owned(), options.marks.into());
        Ok(variables)
    }
}

/// Everything that its renderings depend on.
impl Serialize for ChatTemplate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (&self.source, &self.special_tokens).serialize(serializer)
    }
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ChatTemplate").field("file", &self.file).finish_non_exhaustive()
    }
}
