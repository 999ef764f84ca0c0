//! Entries of the `dataset_info.json` that LLaMA-Factory publishes, for files that name them without one.

use serde_json::{Map, Value, json};

/// Name and file of demonstration sets, whose rows are instructions.
const FILES: [(&str, &str); 3] = [
    ("identity", "identity.json"),
    ("alpaca_en_demo", "alpaca_en_demo.json"),
    ("alpaca_zh_demo", "alpaca_zh_demo.json"),
];
/// Name and file of demonstration sets of plain text.
const TEXTS: [(&str, &str); 2] = [("c4_demo", "c4_demo.jsonl"), ("wiki_demo", "wiki_demo.txt")];
/// Name and file of demonstration sets of preferences.
const PAIRS: [(&str, &str); 2] =
    [("dpo_en_demo", "dpo_en_demo.json"), ("dpo_zh_demo", "dpo_zh_demo.json")];
/// Name of sets of good and bad answers, with the place and the column of conversations.
const ANSWERS: [(&str, (&str, &str, &str)); 2] = [
    ("kto_en_demo", ("file_name", "kto_en_demo.json", "messages")),
    ("kto_mix_en", ("hf_hub_url", "argilla/kto-mix-15k", "completion")),
];
/// A set of good and bad answers to instructions.
const INSTRUCTED: (&str, &str) =
    ("ultrafeedback_kto", "argilla/ultrafeedback-binarized-preferences-cleaned-kto");
/// Name and id of sets on the hub, whose rows are instructions.
const HUB: [(&str, &str); 6] = [
    ("alpaca_en", "llamafactory/alpaca_en"),
    ("alpaca_zh", "llamafactory/alpaca_zh"),
    ("alpaca_gpt4_en", "llamafactory/alpaca_gpt4_en"),
    ("alpaca_gpt4_zh", "llamafactory/alpaca_gpt4_zh"),
    ("open_platypus", "garage-bAInd/Open-Platypus"),
    ("codealpaca", "sahil2801/CodeAlpaca-20k"),
];
/// Name and id of sets on the hub, whose rows are conversations.
const HUB_CHATS: [(&str, &str); 3] = [
    ("lima", "llamafactory/lima"),
    ("slimorca", "Open-Orca/SlimOrca"),
    ("sharegpt4", "shibing624/sharegpt_gpt4"),
];
/// Sets whose rows have pictures, sound or films.
const MEDIA: [&str; 8] = [
    "mllm_demo",
    "mllm_audio_demo",
    "mllm_video_demo",
    "mllm_video_audio_demo",
    "llava_1k_en",
    "llava_1k_zh",
    "rlhf_v",
    "pokemon_cap",
];

/// The entry of a set.
pub(super) fn entry(name: &str) -> Option<Map<String, Value>> {
    let find = |table: &[(&str, &'static str)]| {
        table.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    };
    let pairs = json!({"messages": "conversations", "chosen": "chosen", "rejected": "rejected"});
    let entry = if let Some(file) = find(&FILES) {
        json!({"file_name": file})
    } else if let Some(file) = find(&TEXTS) {
        json!({"file_name": file, "columns": {"prompt": "text"}})
    } else if let Some(file) = find(&PAIRS) {
        json!({"file_name": file, "ranking": true, "formatting": "sharegpt", "columns": pairs})
    } else if let Some((_, (place, set, column))) = ANSWERS.iter().find(|(known, _)| *known == name)
    {
        let tags = json!({"role_tag": "role", "content_tag": "content", "user_tag": "user",
            "assistant_tag": "assistant"});
        let columns = json!({"messages": column, "kto_tag": "label"});
        json!({*place: set, "formatting": "sharegpt", "columns": columns, "tags": tags})
    } else if name == INSTRUCTED.0 {
        let columns = json!({"prompt": "prompt", "response": "completion", "kto_tag": "label"});
        json!({"hf_hub_url": INSTRUCTED.1, "columns": columns})
    } else if let Some(id) = find(&HUB) {
        json!({"hf_hub_url": id})
    } else if let Some(id) = find(&HUB_CHATS) {
        json!({"hf_hub_url": id, "formatting": "sharegpt"})
    } else if MEDIA.contains(&name) {
        json!({"file_name": name, "columns": {"images": "images"}})
    } else {
        return None;
    };
    entry.as_object().cloned()
}
