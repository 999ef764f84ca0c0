//! Values of the section `peft`.

mod layer_numbers;
mod target_modules;
mod token_indices;

pub use layer_numbers::LayerNumbers;
pub use target_modules::TargetModules;
pub use token_indices::TokenIndices;
