//! Pairs of a query and a passage as conversations: sentence-transformers renders those of a cross encoder by the chat
//! template of its tokenizer.

use serde::Serialize;

use super::{ChatOptions, ChatTemplate};
use crate::error::{ChatProblem, Error, Result};
use crate::source::{Row, Value};
use crate::tokenize::{Encoded, TextTokenizer};

/// The roles of the two messages.
const ROLES: [&str; 2] = ["query", "document"];
/// A pair, and for each role one with another text of it.
const PROBES: [[&str; 2]; 3] = [["alpha", "bravo"], ["charlie", "bravo"], ["alpha", "foxtrot"]];
/// Texts that share no token: what renderings of both end with is the template's.
const FILLERS: [&str; 2] = ["0", "1 2 3 4"];
/// Parts of templates that read the content of a message as a list.
const LISTS: [&str; 6] =
    ["content[0]", ".type", "'type'", "\"type\"", "item.type", "message.content["];
/// Models whose templates have parts of [`LISTS`] and read texts.
const FLAT_MODELS: [&str; 4] = ["apertus", "deepseek_v3", "gpt_oss", "seed_oss"];

/// The content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum MessageFormat {
    /// A text.
    Flat,
    /// A list with a text.
    Structured,
}

impl MessageFormat {
    /// The format that the template of a model reads, as sentence-transformers infers it.
    pub fn of_template(template: &ChatTemplate, model_type: &str) -> Self {
        let has_lists = LISTS.iter().any(|part| template.source().contains(part));
        match has_lists && !FLAT_MODELS.contains(&model_type) {
            true => Self::Structured,
            false => Self::Flat,
        }
    }

    /// The format of a name in sentence-transformers' files.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Flat, Self::Structured].into_iter().find(|format| format.name() == name)
    }

    /// The name in sentence-transformers' files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Structured => "structured",
        }
    }

    fn content(self, text: &str) -> Value {
        let field = |name: &str, text: &str| (name.to_owned(), Value::Text(text.to_owned()));
        match self {
            Self::Flat => Value::Text(text.to_owned()),
            Self::Structured => {
                Value::List(vec![Value::Struct(vec![field("type", "text"), field("text", text)])])
            }
        }
    }
}

/// The template of a cross encoder.
#[derive(Clone, Debug, Serialize)]
pub struct PairTemplate {
    template: ChatTemplate,
    format: MessageFormat,
    /// Whether the beginning of an answer follows (`add_generation_prompt`).
    prompts: bool,
    /// Whether rows that are cut end as the template does.
    restores_end: bool,
}

impl PairTemplate {
    /// Fails where the template does not write the texts of both roles, as sentence-transformers does.
    pub fn new(
        template: ChatTemplate,
        format: MessageFormat,
        prompts: bool,
        restores_end: bool,
    ) -> Result<Self, ChatProblem> {
        let found = Self { template, format, prompts, restores_end };
        let base = found.render(PROBES[0])?;
        for (role, probe) in ROLES.into_iter().zip(&PROBES[1..]) {
            if found.render(*probe)? == base {
                return Err(ChatProblem::UnwrittenRole { role });
            }
        }
        Ok(found)
    }

    /// The content of messages.
    pub fn format(&self) -> MessageFormat {
        self.format
    }

    /// The tokens of a pair of a row, whose passage is in `column`.
    pub(crate) fn encode(
        &self,
        row: &Row<'_>,
        column: &str,
        pair: [&str; 2],
        tokenizer: &dyn TextTokenizer,
    ) -> Result<Encoded> {
        let problem = |problem| Error::Chat {
            at: row.location(),
            column: column.to_owned(),
            problem: Box::new(problem),
        };
        let text = self.render(pair).map_err(problem)?;
        let encoded = tokenizer.encode_as_it_is(&text);
        let encoded = encoded.map_err(|problem| row.tokenize_error(problem))?.encoded;
        Ok(self.cut(encoded, tokenizer))
    }

    fn render(&self, pair: [&str; 2]) -> Result<String, ChatProblem> {
        let messages = [0, 1].map(|side| {
            let role = Value::Text(ROLES[side].to_owned());
            let content = self.format.content(pair[side]);
            Value::Struct(vec![("role".to_owned(), role), ("content".to_owned(), content)])
        });
        let options = ChatOptions { prompts: self.prompts, ..ChatOptions::default() };
        Ok(self.template.render(&[&messages[0], &messages[1]], &options)?.text)
    }

    /// Cuts a row to the tokenizer's length. One that has this length ends with the tokens of the template then, which
    /// models with a causal mask are read at.
    fn cut(&self, mut encoded: Encoded, tokenizer: &dyn TextTokenizer) -> Encoded {
        let length = encoded.input_ids.len();
        let Some(max_length) = tokenizer.max_length().map(|it| it as usize) else { return encoded };
        if length < max_length {
            return encoded;
        }
        let kept = match tokenizer.cuts_beginning() {
            true => length - max_length..length,
            false => 0..max_length,
        };
        encoded.input_ids = encoded.input_ids[kept.clone()].to_vec();
        encoded.token_type_ids = encoded.token_type_ids[kept].to_vec();
        encoded.truncated = length > max_length;
        if self.restores_end {
            let end = self.end(tokenizer);
            let restored = end.len().min(max_length);
            encoded.input_ids[max_length - restored..]
                .copy_from_slice(&end[end.len() - restored..]);
        }
        encoded
    }

    /// The tokens that every row ends with; none where they are not known.
    fn end(&self, tokenizer: &dyn TextTokenizer) -> Vec<u32> {
        let of_filler = |filler| {
            let text = self.render([filler; 2]).ok()?;
            Some(tokenizer.encode_as_it_is(&text).ok()?.encoded.input_ids)
        };
        let [Some(first), Some(second)] = FILLERS.map(of_filler) else { return Vec::new() };
        let both = first.iter().rev().zip(second.iter().rev());
        let count = both.take_while(|(one, other)| one == other).count();
        if count == first.len().min(second.len()) {
            return Vec::new();
        }
        first[first.len() - count..].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;

    fn template(source: &str) -> ChatTemplate {
        ChatTemplate::new(Path::new("a.jinja"), source.to_owned(), BTreeMap::new()).unwrap()
    }

    #[test]
    fn contents_are_lists_where_the_template_reads_them() {
        let format = |source: &str, model_type| {
            MessageFormat::of_template(&template(source), model_type).name()
        };
        assert_eq!(format("{{ messages[0].content }}", "qwen3"), "flat");
        assert_eq!(format("{{ messages[0].content[0].text }}", "qwen3"), "structured");
        assert_eq!(format("{{ messages[0]['type'] }}", "qwen3"), "structured");
        assert_eq!(format("{{ messages[0]['type'] }}", "gpt_oss"), "flat");
        assert_eq!(MessageFormat::from_name("structured"), Some(MessageFormat::Structured));
    }

    /// Roles need no name in a template that writes all messages.
    #[test]
    fn a_template_writes_both_texts() {
        let found = |source: &str, format| {
            PairTemplate::new(template(source), format, true, true)
                .and_then(|template| template.render(["a", "b"]))
        };
        let all = "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}\
                   {% if add_generation_prompt %}<answer>{% endif %}";
        assert_eq!(found(all, MessageFormat::Flat).unwrap(), "<query>a<document>b<answer>");
        let parts = "{{ messages[1].content[0].text }} {{ messages[0].content[0].text }}";
        assert_eq!(found(parts, MessageFormat::Structured).unwrap(), "b a");
        let refused = |source| found(source, MessageFormat::Flat).unwrap_err().to_string();
        assert!(refused("{{ messages[0].content }}").ends_with("of the role document"));
        assert!(refused("{{ messages[1].content }}").ends_with("of the role query"));
        assert!(refused("{{ raise_exception('no user') }}").contains("no user"));
    }
}
