//! `layer_types`: which layers of a model have a window.

use crate::config::ModelConfig;
use crate::error::Result;

/// Whether each layer has a window: as `layer_types` says, or else `default` of its number.
pub(super) fn local_layers(
    config: &ModelConfig,
    layers: usize,
    default: impl Fn(usize) -> bool,
) -> Result<Vec<bool>> {
    let Some(types) = config.strings("layer_types")? else {
        return Ok((0..layers).map(default).collect());
    };
    if types.len() != layers {
        let problem = format!("names {} layers, num_hidden_layers is {layers}", types.len());
        return Err(config.error("layer_types", problem));
    }
    let is_local = |kind| match kind {
        "sliding_attention" => Ok(true),
        "full_attention" => Ok(false),
        other => Err(config.error("layer_types", format!("{other} is not supported"))),
    };
    types.into_iter().map(is_local).collect()
}
