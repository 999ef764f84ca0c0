//! The names of modules in transformers, by which PEFT finds them, where files have others: in version 5,
//! ViT's layers are named otherwise in memory than in the weights of its folders, which keep their names.

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

/// The names of a family's modules.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ModuleNames {
    renamed: &'static Renamed,
}

impl ModuleNames {
    pub(super) fn of(model_type: &str) -> ModuleNames {
        let renamed: &Renamed = match model_type {
            "vit" | "deit" => VIT,
            _ => &[],
        };
        ModuleNames { renamed }
    }

    /// The name of a parameter behind the path of its module.
    pub(super) fn parameter(self, name: &str) -> String {
        let rename = |name: String, (saved, module): &(&str, &str)| name.replace(saved, module);
        self.renamed.iter().fold(name.to_owned(), rename)
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
}
