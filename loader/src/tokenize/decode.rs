//! Token ids as text, as `AutoTokenizer.decode(..., skip_special_tokens=True)` returns it.

use tokenizers::{ModelWrapper, Tokenizer};

use crate::error::TokenizeProblem;

/// The texts that transformers' `clean_up_tokenization` replaces, in its order.
const CLEANED: [(&str, &str); 10] = [
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
];

/// Decodes tokens without the special ones. `cleans_up`: `clean_up_tokenization_spaces`, which
/// transformers ignores for BPE.
pub(super) fn decode(
    tokenizer: &Tokenizer,
    cleans_up: bool,
    ids: &[u32],
) -> Result<String, TokenizeProblem> {
    let text = tokenizer.decode(ids, true)?;
    if !cleans_up || matches!(tokenizer.get_model(), ModelWrapper::BPE(_)) {
        return Ok(text);
    }
    Ok(CLEANED.iter().fold(text, |text, (from, to)| text.replace(from, to)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A tokenizer for "it ' s here . [SEP]" whose decoder joins tokens by spaces.
    fn tokenizer(model: &str) -> Tokenizer {
        let tokens = ["it", "'s", "here", ".", "[SEP]"];
        let vocabulary: serde_json::Map<_, _> =
            tokens.into_iter().zip(0..).map(|(token, id)| (token.to_owned(), json!(id))).collect();
        let special = json!({"id": 4, "content": "[SEP]", "special": true, "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false});
        let tokenizer = json!({
            "version": "1.0", "added_tokens": [special],
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": false},
            "model": {"type": model, "vocab": vocabulary, "merges": [], "unk_token": "it"},
        });
        Tokenizer::from_bytes(tokenizer.to_string()).unwrap()
    }

    #[test]
    fn text_lacks_special_tokens_and_is_cleaned_up_where_transformers_does_it() {
        let ids = [0, 1, 2, 3, 4];
        let check = |model: &str, cleans_up: bool, expect: &str| {
            assert_eq!(decode(&tokenizer(model), cleans_up, &ids).unwrap(), expect, "{model}");
        };
        check("WordLevel", false, "it 's here .");
        check("WordLevel", true, "it's here.");
        check("BPE", true, "it 's here .");
    }
}
