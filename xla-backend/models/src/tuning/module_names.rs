//! The names of modules in transformers, by which PEFT finds them, where files have others: in version 5, layers of
//! ViT, Nomic BERT, GTE and Jina Embeddings are named otherwise in memory than in the weights of their folders, which
//! keep their names, and what is one matrix in files can be several modules.

/// Parts of paths as weight files have them, and as modules have them.
type Renamed = [(&'static str, &'static str)];

const VIT: &Renamed = &[
    (".encoder.layer.", ".layers."),
    (".attention.attention.query.", ".attention.q_proj."),
    (".attention.attention.key.", ".attention.k_proj."),
    (".attention.attention.value.", ".attention.v_proj."),
    (".attention.output.dense.", ".attention.o_proj."),
    (".intermediate.dense.", ".mlp.fc1."),
    (".output.dense.", ".mlp.fc2."),
];

const NOMIC_BERT: &Renamed = &[
    (".encoder.layers.", ".layers."),
    (".emb_ln.", ".embeddings.LayerNorm."),
    (".attn.out_proj.", ".self_attn.o_proj."),
    (".attn.", ".self_attn."),
    (".fc11.", ".up_proj."),
    (".fc12.", ".gate_proj."),
    (".fc2.", ".down_proj."),
    (".norm1.", ".post_attention_layernorm."),
    (".norm2.", ".post_mlp_layernorm."),
];

const GTE: &Renamed = &[
    (".encoder.layer.", ".layers."),
    (".attention.", ".self_attn."),
    (".attn_ln.", ".post_attention_layernorm."),
    (".mlp_ln.", ".post_mlp_layernorm."),
    ("lm_head.norm.", "lm_head.layer_norm."),
];

const JINA_EMBEDDINGS: &Renamed = &[
    (".emb_ln.", ".embeddings.LayerNorm."),
    (".encoder.layers.", ".layers."),
    (".mixer.out_proj.", ".self_attn.o_proj."),
    (".mixer.", ".self_attn."),
    (".norm1.", ".post_attention_layernorm."),
    (".norm2.", ".post_mlp_layernorm."),
];

/// The last part of the path of a matrix in files, and the modules that have its rows, in equal runs.
type Joined = [(&'static str, &'static [&'static str])];

const PROJECTIONS: &[&str] = &["q_proj", "k_proj", "v_proj"];

/// The names of a family's modules.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ModuleNames {
    renamed: &'static Renamed,
    joined: &'static Joined,
}

impl ModuleNames {
    pub(super) fn of(model_type: &str) -> ModuleNames {
        let (renamed, joined): (&Renamed, &Joined) = match model_type {
            "vit" | "deit" => (VIT, &[]),
            "nomic_bert" => (NOMIC_BERT, &[("Wqkv", PROJECTIONS)]),
            "gte" => {
                (GTE, &[("qkv_proj", PROJECTIONS), ("up_gate_proj", &["up_proj", "gate_proj"])])
            }
            "jina_embeddings_v3" => (JINA_EMBEDDINGS, &[("Wqkv", PROJECTIONS)]),
            _ => (&[], &[]),
        };
        ModuleNames { renamed, joined }
    }

    /// The modules that share the rows of the matrix at `path`: none where the matrix is one module's.
    pub(super) fn modules_of(self, path: &str) -> &'static [&'static str] {
        let last = path.rsplit('.').next();
        let joined = self.joined.iter().find(|(saved, _)| Some(*saved) == last);
        joined.map_or(&[], |(_, modules)| modules)
    }

    /// The name of a parameter behind the path of its module.
    pub(super) fn parameter(self, name: &str) -> String {
        let rename = |name: String, (saved, module): &(&str, &str)| name.replace(saved, module);
        // In a model without a head, layers have no module around them.
        let name = self.renamed.iter().fold(format!(".{name}"), rename);
        name.strip_prefix('.').unwrap_or(&name).to_owned()
    }

    /// The path of a module.
    pub(super) fn module(self, path: &str) -> String {
        let mut name = self.parameter(&format!("{path}."));
        name.pop();
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_of_vit_have_names_of_their_own() {
        for (saved, module) in [
            ("vit.encoder.layer.1.attention.attention.key", "vit.layers.1.attention.k_proj"),
            ("vit.encoder.layer.1.attention.output.dense", "vit.layers.1.attention.o_proj"),
            ("vit.encoder.layer.1.intermediate.dense", "vit.layers.1.mlp.fc1"),
            ("vit.encoder.layer.1.output.dense", "vit.layers.1.mlp.fc2"),
            ("classifier", "classifier"),
        ] {
            assert_eq!(ModuleNames::of("vit").module(saved), module);
            assert_eq!(ModuleNames::of("bert").module(saved), saved);
        }
    }

    #[test]
    fn joined_matrices_are_modules_of_their_own() {
        let names = ModuleNames::of("nomic_bert");
        assert_eq!(names.modules_of("encoder.layers.0.attn.Wqkv"), PROJECTIONS);
        assert_eq!(names.module("encoder.layers.0.attn.q_proj"), "layers.0.self_attn.q_proj");
        assert_eq!(
            names.module("nomic_bert.encoder.layers.3.mlp.fc2"),
            "nomic_bert.layers.3.mlp.down_proj"
        );
        assert!(ModuleNames::of("modernbert").modules_of("layers.0.attn.Wqkv").is_empty());
    }
}
