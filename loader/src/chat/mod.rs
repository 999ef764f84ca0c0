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
mod named;
mod pairs;
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

use crate::error::{ChatProblem, Error, Result};
use crate::guard::guard;
use crate::source::Value;
use crate::tokenize::TokenSpan;

pub use named::named_templates;
pub use pairs::{MessageFormat, PairTemplate};

/// The template of a model's tokenizer. Clones share it.
#[derive(Clone)]
pub struct ChatTemplate {
    file: PathBuf,
    source: String,
    special_tokens: BTreeMap<String, String>,
    environment: Arc<Environment<'static>>,
    /// The template of rows that have tools, where the tokenizer has one of its own for them.
    tool_use: Option<Box<ChatTemplate>>,
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
    /// The place of the last message of a whole conversation, of which the messages are the beginning.
    pub real_last_index: Option<u32>,
}

/// A rendered conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderedChat {
    /// The rendered conversation.
    pub text: String,
    /// The characters inside `{% generation %}` if [`ChatOptions::marks`] is set.
    pub generated: Vec<Range<u32>>,
}

/// The token that texts begin with, if the tokenizer in `folder` names one.
pub fn bos_token(folder: &Path) -> Result<Option<String>> {
    Ok(files::special_tokens(folder)?.remove(files::BOS_TOKEN))
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
        let Some(found) = files::templates(folder)? else { return Ok(None) };
        let special_tokens = files::special_tokens_with(folder, eos_token)?;
        let tool_use = match found.tool_use {
            Some((file, source)) => Some(Self::new(&file, source, special_tokens.clone())?),
            None => None,
        };
        let (file, source) = found.default;
        let template = Self::new(&file, source, special_tokens)?;
        Ok(Some(Self { tool_use: tool_use.map(Box::new), ..template }))
    }

    /// The template that a job chooses: a name, the path of a file, or the text of a template. See
    /// [`named_templates`]; `tokenizer_default` is that of the tokenizer's folder.
    pub fn choose(folder: &Path, choice: &str, eos_token: Option<&str>) -> Result<Option<Self>> {
        const FALLBACK: &str = "tokenizer_default_fallback_";
        let choice = match (choice, choice.strip_prefix(FALLBACK)) {
            ("tokenizer_default", _) => return Self::open(folder, eos_token),
            (_, Some(name)) => match Self::open(folder, eos_token)? {
                Some(template) => return Ok(Some(template)),
                None => name,
            },
            (choice, None) => choice,
        };
        let special_tokens = files::special_tokens_with(folder, eos_token)?;
        let (file, source) = files::chosen(choice)?;
        Self::new(&file, source, special_tokens).map(Some)
    }

    fn new(file: &Path, source: String, special_tokens: BTreeMap<String, String>) -> Result<Self> {
        let environment = guard(file, "parse the chat template", || {
            environment::of_template(&source)
                .map_err(|error| Error::bad_template(file, environment::message(&error)))
        })?;
        let environment = Arc::new(environment);
        let file = file.to_path_buf();
        Ok(Self { file, source, special_tokens, environment, tool_use: None })
    }

    /// The template's text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns true if the template has the text of a token.
    pub(crate) fn writes(&self, token: &str) -> bool {
        self.source.contains(token)
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
        if let (Some(template), Some(tools)) = (&self.tool_use, options.tools)
            && *tools != Value::Null
        {
            return template.render(messages, options);
        }
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
        if let Some(index) = options.real_last_index {
            variables.insert("real_last_index".to_owned(), index.into());
        }
        variables.insert(marks::VARIABLE.to_owned(), options.marks.into());
        Ok(variables)
    }
}

/// Everything that its renderings depend on.
impl Serialize for ChatTemplate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (&self.source, &self.special_tokens, &self.tool_use).serialize(serializer)
    }
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ChatTemplate").field("file", &self.file).finish_non_exhaustive()
    }
}
