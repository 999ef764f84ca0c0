//! Tokenizes the pieces of turns.

use super::template::{Slot, TurnTemplate};
use super::{FUNCTION, OBSERVATION};
use crate::chat::RowTexts;
use crate::error::{ChatProblem, Result};
use crate::layouts::conversation::{Turn, USER};
use crate::source::Value;

/// Turns the elements of a template into tokens.
pub(super) struct Pieces<'a> {
    pub(super) template: &'static TurnTemplate,
    pub(super) texts: &'a RowTexts<'a>,
    pub(super) bos_token: Option<&'a str>,
    pub(super) column: &'a str,
}

impl Pieces<'_> {
    /// The tokens of each turn; those of the first begin with prefix and system.
    pub(super) fn turns(&self, system: &str, turns: &[Turn]) -> Result<Vec<Vec<u32>>> {
        let has_tools = match self.texts.row.find("tools") {
            None | Some(Value::Null) => false,
            Some(Value::Text(text)) => !text.is_empty(),
            Some(Value::List(tools)) => !tools.is_empty(),
            Some(_) => true,
        };
        if has_tools || turns.iter().any(|turn| turn.role() == FUNCTION) {
            return Err(self.texts.problem(self.column, ChatProblem::ToolsOfTurns));
        }
        let encode = |(place, turn)| self.turn(place, turn, system);
        turns.iter().enumerate().map(encode).collect()
    }

    fn turn(&self, place: usize, turn: &Turn, system: &str) -> Result<Vec<u32>> {
        let template = self.template;
        let mut ids = Vec::new();
        let mut content = turn.content().to_owned();
        if place == 0 {
            self.extend(&mut ids, template.prefix, "")?;
            match system {
                "" => {}
                system if template.system_in_question => {
                    content = template.system_text(system) + &content;
                }
                system => self.extend(&mut ids, template.system, system)?,
            }
        }
        let slots = match turn.role() {
            USER => template.user,
            OBSERVATION => template.observation.unwrap_or(template.user),
            _ => template.assistant,
        };
        self.extend(&mut ids, slots, &content)?;
        Ok(ids)
    }

    fn extend(&self, ids: &mut Vec<u32>, slots: &[Slot], content: &str) -> Result<()> {
        for slot in slots {
            match slot {
                Slot::Text(text) => ids.extend(self.encode(&text.replacen("{}", content, 1))?),
                Slot::Bos => ids.extend(self.texts.token_id(self.bos_token)?),
                Slot::Eos => ids.extend(self.eos()?),
            }
        }
        Ok(())
    }

    pub(super) fn encode(&self, text: &str) -> Result<Vec<u32>> {
        match text {
            "" => Ok(Vec::new()),
            text => self.texts.ids_as_it_is(text),
        }
    }

    /// The token that ends texts: the template's own or else the tokenizer's.
    pub(super) fn eos(&self) -> Result<Option<u32>> {
        self.texts.token_id(self.template.eos_token.or(self.texts.eos_token))
    }
}
