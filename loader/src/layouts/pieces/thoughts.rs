//! Thoughts before an answer, between words of the template.

use crate::layouts::conversation::Turn;
use crate::source::Value;

/// The words around a thought.
#[derive(Debug)]
pub(super) struct Thoughts {
    pub(super) begin: &'static str,
    pub(super) end: &'static str,
}

impl Thoughts {
    /// An empty thought.
    pub(super) fn empty(&self) -> String {
        format!("{}{}", self.begin, self.end)
    }

    pub(super) fn are_absent_in(&self, turn: &Turn) -> bool {
        let content = turn.content();
        !content.contains(self.begin.trim()) && !content.contains(self.end.trim())
    }

    /// Takes all thoughts out of an answer, and the line breaks that it then begins with.
    pub(super) fn remove(&self, turn: &mut Turn) {
        let mut content = turn.content().to_owned();
        while let Some(start) = content.find(self.begin) {
            let behind = start + self.begin.len();
            let Some(end) = content[behind..].find(self.end) else { break };
            content.replace_range(start..behind + end + self.end.len(), "");
        }
        let content = content.trim_start_matches('\n').to_owned();
        if let Value::Struct(fields) = &mut turn.message
            && let Some((_, value)) = fields.iter_mut().find(|(name, _)| name == "content")
        {
            *value = Value::Text(content);
        }
    }
}
