//! The type in which weights that are not trained stay on the cores.

use traind_xla::DType;

use crate::model::Model;

/// Stores frozen parameters in `dtype`. Trained ones are float32: an update is smaller than the
/// steps between two numbers of a shorter type.
pub fn store_frozen_as(model: &mut Model, dtype: DType) {
    let mut specs = model.parameters().to_vec();
    for spec in specs.iter_mut().filter(|spec| !spec.trainable) {
        spec.shape = spec.shape.with_dtype(dtype);
    }
    let adapters = model.adapters().clone();
    model.tune(specs, adapters);
}
