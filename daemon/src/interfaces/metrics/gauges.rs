//! Gauges that are created for each scrape.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

type Labels = Vec<(String, String)>;
type GaugeFamily = Family<Labels, Gauge<f64, AtomicU64>>;

/// Families of gauges by name; a family's series may differ in their labels.
#[derive(Default)]
pub(super) struct Gauges {
    families: BTreeMap<&'static str, (&'static str, GaugeFamily)>,
}

impl Gauges {
    /// Sets a gauge. Labels without a value are left out, which is the same to Prometheus.
    pub(super) fn set<V: AsRef<str>>(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, V)],
        value: f64,
    ) {
        let given = labels.iter().filter(|(_, value)| !value.as_ref().is_empty());
        let labels = given.map(|(key, value)| ((*key).to_owned(), value.as_ref().to_owned()));
        let (_, family) = self.families.entry(name).or_insert_with(|| (help, Family::default()));
        family.get_or_create(&labels.collect()).set(value);
    }

    pub(super) fn register(self, registry: &mut Registry) {
        for (name, (help, family)) in self.families {
            registry.register(name, help, family);
        }
    }
}
