//! What is not on the host: data in a bucket, a model on the hub.

mod buckets;
mod hubs;
