//! Chat templates that jobs name: they render as those of axolotl under the same names.

/// Name and text of each template.
const TEMPLATES: [(&str, &str); 14] = [
    ("alpaca", include_str!("templates/alpaca.jinja")),
    ("chatml", include_str!("templates/chatml.jinja")),
    ("cohere", include_str!("templates/cohere.jinja")),
    ("deepseek_v2", include_str!("templates/deepseek_v2.jinja")),
    ("exaone", include_str!("templates/exaone.jinja")),
    ("gemma", include_str!("templates/gemma.jinja")),
    ("gemma3", include_str!("templates/gemma3.jinja")),
    ("llama3", include_str!("templates/llama3.jinja")),
    ("mistral_v1", include_str!("templates/mistral_v1.jinja")),
    ("phi_3", include_str!("templates/phi_3.jinja")),
    ("phi_35", include_str!("templates/phi_35.jinja")),
    ("qwen3", include_str!("templates/qwen3.jinja")),
    ("qwen_25", include_str!("templates/qwen_25.jinja")),
    ("metharme", include_str!("templates/metharme.jinja")),
];

/// The names of all templates.
pub fn named_templates() -> impl Iterator<Item = &'static str> {
    TEMPLATES.iter().map(|(name, _)| *name)
}

/// The text of a template.
pub(super) fn named(name: &str) -> Option<&'static str> {
    TEMPLATES.iter().find(|(known, _)| *known == name).map(|(_, source)| *source)
}
