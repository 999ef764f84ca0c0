//! Parts of models.

mod activations;
mod dropout;
mod embedding;
mod embedding_noise;
mod packed_tokens;
mod read_tokens;
mod training_pass;
