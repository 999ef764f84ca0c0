//! Parts of models.

mod activations;
mod dropout;
mod embedding;
mod embedding_noise;
mod long_rows;
mod packed_tokens;
mod padded_answers;
mod read_tokens;
mod training_pass;
