//! Losses and scores of batches.

mod accuracy;
mod embeddings;
mod empty_slots;
mod label_smoothing;
mod losses;
mod named_losses;
mod preference;
