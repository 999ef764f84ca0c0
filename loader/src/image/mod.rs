//! Images: encoded bytes to pixels of the size that a model reads.
//!
//! [`ImageProcessor`] follows `preprocessor_config.json` as transformers' image processors do. Pixels
//! stay bytes: rescaling and normalizing is left to the model. [`Augmentation`] draws the crops and
//! flips of training.

mod augmentation;
mod decode;
mod jpeg;
mod pixels;
mod processor;
mod resample;
#[cfg(test)]
mod tests;

pub use augmentation::Augmentation;
pub(crate) use decode::{BYTES_MAX, decode};
pub(crate) use pixels::CHANNELS;
pub use processor::ImageProcessor;
