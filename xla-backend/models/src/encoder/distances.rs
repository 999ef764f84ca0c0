//! The vectors of distances that all layers of disentangled attention read.

use traind_xla::Tensor;

use super::EncoderConfig;
use crate::error::Result;
use crate::layers::LayerNorm;
use crate::model::Forward;
use crate::parameters::{Init, ParameterPath, Role, Stage};

#[derive(Debug)]
pub(super) struct DistanceTable {
    /// The name of the table f32[2 A, H], of which A rows are for each direction.
    weight: String,
    norm: Option<LayerNorm>,
}

impl DistanceTable {
    /// Declares the table below the encoder's path, if scores depend on distances.
    pub(super) fn new(
        path: &mut ParameterPath<'_>,
        config: &EncoderConfig,
    ) -> Option<DistanceTable> {
        let disentangled = config.disentangled?;
        let rows = 2 * disentangled.distances?.span();
        let all = (0..config.num_hidden_layers).map(Stage::Layer);
        let mut table = path.at("encoder.rel_embeddings").in_stage(Stage::Layer(0));
        let dims = [rows.into(), config.hidden_size().into()];
        let init = Init::Normal { std: config.std() };
        let weight = table.declare("weight", Role::Embedding, &dims, init);
        table.share_in(all.clone());
        let norm = disentangled.normalizes_distances.then(|| {
            let mut path = path.at("encoder.LayerNorm").in_stage(Stage::Layer(0));
            let (width, epsilon) = (config.hidden_size(), config.layer_norm_eps);
            let norm = LayerNorm::of_all(true, path.at(""), width, epsilon);
            path.share_in(all);
            norm
        });
        Some(DistanceTable { weight, norm })
    }

    /// f32[2 A, H], from which each core that shares the layers computes its part.
    pub(super) fn forward(&self, cx: &Forward<'_>) -> Result<Tensor> {
        let table = cx.parameter(&self.weight)?;
        let table = match &self.norm {
            Some(norm) => norm.forward(cx, &table)?,
            None => table,
        };
        cx.fan_out_copies(table, 1)
    }
}
