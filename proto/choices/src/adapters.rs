//! Settings of adapters.

spelled! {
    /// The biases to train along with adapters.
    pub enum PeftBias {
        /// No bias.
        None = "none",
        /// Every bias of the model.
        All = "all",
        /// The biases of the adapted layers.
        LoraOnly = "lora_only",
    }
}
