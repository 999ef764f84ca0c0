//! The tokens that a job adds to its model, from the keys that name them.

use crate::schema::model::Model;
use crate::schema::vocabulary::SpecialTokens;

impl Model {
    /// Returns true if the job changes the tokenizer.
    pub fn adds_tokens(&self) -> bool {
        self.new_tokens().next().is_some()
    }

    /// All tokens that the job adds or gives a role, with their keys.
    pub fn new_tokens(&self) -> impl Iterator<Item = (String, &str)> {
        let special = &self.add_special_tokens;
        let roles =
            special.roles().map(|(role, token)| (format!("add_special_tokens.{role}"), token));
        let others = special.additional_special_tokens.iter();
        let others = others.map(|token| {
            ("add_special_tokens.additional_special_tokens".to_owned(), token.as_str())
        });
        let plain = self.add_tokens.iter().map(|token| ("add_tokens".to_owned(), token.as_str()));
        roles.chain(others).chain(plain).map(|(key, token)| (format!("model.{key}"), token))
    }
}

impl SpecialTokens {
    /// The tokens that have a role, with its name.
    pub fn roles(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let roles = [
            ("bos_token", &self.bos_token),
            ("eos_token", &self.eos_token),
            ("unk_token", &self.unk_token),
            ("sep_token", &self.sep_token),
            ("pad_token", &self.pad_token),
            ("cls_token", &self.cls_token),
            ("mask_token", &self.mask_token),
        ];
        roles.into_iter().filter_map(|(role, token)| Some((role, token.as_deref()?)))
    }
}
