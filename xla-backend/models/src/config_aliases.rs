//! Keys that transformers' configs have under a second, general name: `attribute_map`. Where a file has both, the
//! general name wins.

use serde_json::{Map, Value};

type Aliases = &'static [(&'static str, &'static str)];

const OF_GPT2: Aliases = &[
    ("hidden_size", "n_embd"),
    ("max_position_embeddings", "n_positions"),
    ("num_attention_heads", "n_head"),
    ("num_hidden_layers", "n_layer"),
];
const OF_DISTILBERT: Aliases = &[
    ("hidden_size", "dim"),
    ("num_attention_heads", "n_heads"),
    ("num_hidden_layers", "n_layers"),
];
const OF_T5: Aliases = &[
    ("hidden_size", "d_model"),
    ("num_attention_heads", "num_heads"),
    ("num_hidden_layers", "num_layers"),
    ("head_dim", "d_kv"),
];
const OF_BART: Aliases = &[
    ("num_attention_heads", "encoder_attention_heads"),
    ("hidden_size", "d_model"),
    ("num_hidden_layers", "encoder_layers"),
];

/// The names of a type's keys, each behind its general name.
fn of_type(model_type: &str) -> Aliases {
    match model_type {
        "gpt2" => OF_GPT2,
        "distilbert" => OF_DISTILBERT,
        "t5" | "mt5" => OF_T5,
        "bart" | "mbart" => OF_BART,
        _ => &[],
    }
}

/// Moves values from general names to the type's own, and does the same in a list of `names`.
pub(crate) fn resolve(keys: &mut Map<String, Value>, names: &mut [String]) {
    let model_type = keys.get("model_type").and_then(Value::as_str).unwrap_or_default().to_owned();
    for (general, own) in of_type(&model_type) {
        if *own == "num_layers" {
            keep_decoder_layers(keys, &model_type);
        }
        if let Some(value) = keys.remove(*general).filter(|value| !value.is_null()) {
            keys.insert((*own).to_owned(), value);
        }
        names.iter_mut().filter(|name| name == general).for_each(|name| *name = (*own).to_owned());
    }
}

/// T5 takes the number of decoder layers from `num_layers` before the general name replaces it.
fn keep_decoder_layers(keys: &mut Map<String, Value>, model_type: &str) {
    const OWN: &str = "num_decoder_layers";
    if keys.get("num_hidden_layers").is_some_and(|it| !it.is_null())
        && keys.get(OWN).is_none_or(Value::is_null)
    {
        let default = if model_type == "mt5" { 8 } else { 6 };
        let layers = keys.get("num_layers").cloned().unwrap_or_else(|| default.into());
        keys.insert(OWN.to_owned(), layers);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each as `AutoConfig` reads it.
    #[test]
    fn general_names_win_over_the_types_own() {
        let check = |keys: Value, expect: Value| {
            let Value::Object(mut keys) = keys else { panic!("{keys}") };
            resolve(&mut keys, &mut []);
            assert_eq!(Value::Object(keys), expect);
        };
        check(
            json!({"model_type": "gpt2", "n_positions": 64, "max_position_embeddings": 32}),
            json!({"model_type": "gpt2", "n_positions": 32}),
        );
        check(
            json!({"model_type": "distilbert", "hidden_size": 32, "dim": 64}),
            json!({"model_type": "distilbert", "dim": 32}),
        );
        check(
            json!({"model_type": "t5", "num_hidden_layers": 3, "num_layers": 5}),
            json!({"model_type": "t5", "num_layers": 3, "num_decoder_layers": 5}),
        );
        check(
            json!({"model_type": "t5", "num_hidden_layers": 3}),
            json!({"model_type": "t5", "num_layers": 3, "num_decoder_layers": 6}),
        );
        check(
            json!({"model_type": "bart", "num_hidden_layers": 3, "encoder_layers": 5}),
            json!({"model_type": "bart", "encoder_layers": 3}),
        );
        let bert = json!({"model_type": "bert", "hidden_size": 32});
        check(bert.clone(), bert);
    }
}
