//! A bound on how many times longer a tokenizer can make a text. Normalizers replace what matches a pattern, one
//! after the other: twenty-four that double a text make sixteen million times as much of it. A template can repeat the
//! tokens of a text, and add others.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

/// The most that is accepted: published tokenizers stay below 250.
const GROWTH_MAX: u64 = 1000;
/// The parts of published templates are fewer than ten: special tokens, and each text once.
const TEMPLATE_PARTS_MAX: u64 = 100;

/// Explains why the tokenizer of this `tokenizer.json` is refused; `None` if it is not.
pub(super) fn objection(content: &Json) -> Option<String> {
    let parts = template_parts(&content["post_processor"]);
    if parts > TEMPLATE_PARTS_MAX {
        return Some(format!(
            "its post_processor makes {parts} parts of a text, more than {TEMPLATE_PARTS_MAX}: remove what it repeats"
        ));
    }
    ["normalizer", "decoder"].into_iter().find_map(|part| {
        let growth = growth(&content[part]);
        (growth > GROWTH_MAX).then(|| {
            format!(
                "its {part} can make texts more than {GROWTH_MAX} times as long ({growth} times): \
                 remove the replacements that follow each other"
            )
        })
    })
}

/// The longest that a text of one byte can become, in bytes. Forms of Unicode and of letters, which change nothing
/// when they are applied again, do not count.
fn growth(part: &Json) -> u64 {
    let nested = |key: &str| {
        let parts = part.get(key).and_then(Json::as_array).into_iter().flatten();
        parts.map(growth).fold(1, u64::saturating_mul)
    };
    match part.get("type").and_then(Json::as_str) {
        Some("Sequence") => nested("normalizers").saturating_mul(nested("decoders")),
        Some("Replace") => of_replacement(part),
        Some("Prepend") => part["prepend"].as_str().map_or(1, |text| text.len() as u64 + 1),
        Some("Precompiled") => longest_of_table(part),
        _ => 1,
    }
}

/// The tokens that a post-processor adds, and the texts that it repeats, in its longest template.
fn template_parts(part: &Json) -> u64 {
    let of_piece = |piece: &Json| match piece["SpecialToken"]["id"].as_str() {
        Some(name) => part["special_tokens"][name]["ids"].as_array().map_or(1, Vec::len) as u64,
        None => 1,
    };
    let of_template = |key: &str| {
        let pieces = part[key].as_array().into_iter().flatten();
        pieces.map(of_piece).fold(0, u64::saturating_add)
    };
    // Each one applies to what those before it made.
    let nested = part["processors"].as_array().into_iter().flatten().map(template_parts);
    let nested = nested.map(|parts| parts.max(1)).fold(1, u64::saturating_mul);
    nested.max(of_template("single")).max(of_template("pair"))
}

fn of_replacement(part: &Json) -> u64 {
    let bytes = |text: &Json| text.as_str().map_or(0, |text| text.len() as u64);
    let content = bytes(&part["content"]);
    match bytes(&part["pattern"]["String"]) {
        // An expression may match nothing, between all characters.
        0 => content.saturating_add(1),
        pattern => content.div_ceil(pattern).max(1),
    }
}

/// The longest text in a table of SentencePiece: the size of its index, the index, and texts that end with a zero.
fn longest_of_table(part: &Json) -> u64 {
    let encoded = part["precompiled_charsmap"].as_str().unwrap_or_default();
    let Ok(table) = STANDARD.decode(encoded) else { return 1 };
    let Some((size, rest)) = table.split_first_chunk::<4>() else { return 1 };
    let texts = rest.get(u32::from_le_bytes(*size) as usize..).unwrap_or_default();
    let longest = texts.split(|byte| *byte == 0).map(<[u8]>::len).max();
    longest.map_or(1, |bytes| bytes.max(1) as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn replace(pattern: Json, content: &str) -> Json {
        json!({ "type": "Replace", "pattern": pattern, "content": content })
    }

    fn sequence(parts: Vec<Json>) -> Json {
        json!({ "type": "Sequence", "normalizers": parts })
    }

    #[test]
    fn chains_of_replacements_are_refused() {
        let double = || replace(json!({ "String": "a" }), "aa");
        let chain = |count| json!({ "normalizer": sequence(vec![double(); count]) });
        assert_eq!(objection(&chain(9)), None);
        let message = objection(&chain(24)).unwrap();
        assert!(message.contains("normalizer") && message.contains("16777216 times"), "{message}");
        let nested = json!({ "normalizer": sequence(vec![sequence(vec![double(); 6]); 2]) });
        assert!(objection(&nested).unwrap().contains("4096 times"));
        let decoder = json!({ "decoder": { "type": "Sequence", "decoders": vec![double(); 10] } });
        assert!(objection(&decoder).unwrap().contains("its decoder"));
        let all = vec![replace(json!({ "Regex": "" }), &"x".repeat(5000))];
        assert!(objection(&json!({ "normalizer": sequence(all) })).is_some());
        let endless = json!({ "normalizer": sequence(vec![double(); 1000]) });
        assert!(objection(&endless).is_some(), "the product is bounded, too");
    }

    #[test]
    fn long_texts_before_others_and_templates_that_repeat_them_are_refused() {
        let prepend = json!({ "type": "Prepend", "prepend": "x".repeat(1000) });
        assert!(objection(&json!({ "normalizer": prepend })).is_some());
        let text = json!({ "Sequence": { "id": "A", "type_id": 0 } });
        let special = json!({ "SpecialToken": { "id": "[X]", "type_id": 0 } });
        let template = |pieces: Vec<Json>, ids: usize| {
            let tokens =
                json!({ "[X]": { "id": "[X]", "ids": vec![0; ids], "tokens": vec!["x"; ids] } });
            json!({ "type": "TemplateProcessing", "single": pieces, "pair": [text], "special_tokens": tokens })
        };
        let check = |part: Json| objection(&json!({ "post_processor": part }));
        assert_eq!(check(template(vec![special.clone(), text.clone(), special.clone()], 1)), None);
        let repeated = check(template(vec![text.clone(); 101], 1)).unwrap();
        assert!(repeated.contains("makes 101 parts"), "{repeated}");
        assert!(check(template(vec![special, text.clone()], 1_000)).is_some());
        let chain = vec![template(vec![text.clone(); 2], 1); 9];
        let chained = check(json!({ "type": "Sequence", "processors": chain })).unwrap();
        assert!(chained.contains("makes 512 parts"), "{chained}");
    }

    #[test]
    fn those_of_published_tokenizers_are_not() {
        let table = |longest: usize| {
            let bytes = [&4u32.to_le_bytes()[..], &[0; 4], &vec![b'x'; longest], &[0]].concat();
            json!({ "type": "Precompiled", "precompiled_charsmap": STANDARD.encode(bytes) })
        };
        let t5 = sequence(vec![table(54), replace(json!({ "Regex": " {2,}" }), "▁")]);
        assert_eq!(growth(&t5), 54 * 4);
        let llama = sequence(vec![
            json!({ "type": "Prepend", "prepend": "▁" }),
            replace(json!({ "String": " " }), "▁"),
        ]);
        assert_eq!(growth(&llama), 4 * 3);
        for normalizer in [t5, llama, json!({ "type": "NFC" }), Json::Null] {
            assert_eq!(objection(&json!({ "normalizer": normalizer })), None);
        }
        assert!(objection(&json!({ "normalizer": sequence(vec![table(54); 2]) })).is_some());
    }
}
