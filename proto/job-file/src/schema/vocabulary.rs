//! Parts of `model` about the vocabulary.

use crate::section::section;

section! {
    /// Special tokens by their role, as `tokenizer.add_special_tokens` takes them. Texts that are
    /// no tokens yet are added to the vocabulary.
    pub struct SpecialTokens {
        /// Token that begins texts.
        bos_token: Option<String> = None;
        /// Token that ends texts.
        eos_token: Option<String> = None;
        /// Token for what is not in the vocabulary.
        unk_token: Option<String> = None;
        /// Token between two texts.
        sep_token: Option<String> = None;
        /// Token that pads rows.
        pad_token: Option<String> = None;
        /// Token that stands for a whole text.
        cls_token: Option<String> = None;
        /// Token that replaces masked ones.
        mask_token: Option<String> = None;
        /// Special tokens without a role.
        additional_special_tokens: Vec<String> = Vec::new();
    }
}
