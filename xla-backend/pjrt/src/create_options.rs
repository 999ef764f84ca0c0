//! Options of a client or a topology.

use crate::ffi::NamedValue;
use crate::value;
use crate::value::Value;
use std::collections::BTreeMap;

/// Options by name, each of a platform's own. For a client, the CPU plugin knows only
/// `cpu_device_count` (int64, default 4) and ignores the rest; the CUDA plugin checks
/// names and types.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CreateOptions(BTreeMap<String, Value>);

impl CreateOptions {
    /// Returns no options, with which the plugin uses its defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces one option.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// The options as the C API takes them, pointing into these.
    pub(crate) fn to_raw(&self) -> Vec<NamedValue> {
        self.0.iter().map(|(name, value)| value::to_raw(name, value)).collect()
    }
}
