//! The address of a host's service.

use std::fmt;
use std::str::FromStr;

/// A host by name or IP address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub host: String,
    pub port: u16,
}

/// The name of this host; empty where it has none.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Variables that hold this host's name in its cluster, which may not be its own: that of a node of
/// Kubernetes, set by the pod's manifest, and that of a node of Slurm.
const NODE_NAMES: [&str; 2] = ["TRAIND_NODE_NAME", "SLURMD_NODENAME"];

/// The name by which a cluster can avoid this host; its own name without a cluster.
pub fn node_name(variable: impl Fn(&str) -> Option<String>) -> String {
    let mut names = NODE_NAMES.iter().filter_map(|name| variable(name));
    names.find(|name| !name.is_empty()).unwrap_or_else(host_name)
}

/// A text that is not `HOST:PORT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an address is HOST:PORT, and an IPv6 address is in brackets")]
pub struct NoAddress;

impl FromStr for Address {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Address, NoAddress> {
        let (host, port) = text.trim().rsplit_once(':').ok_or(NoAddress)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match bare {
            Some(host) => host,
            None if host.contains(':') => return Err(NoAddress),
            None => host,
        };
        let port = port.parse().map_err(|_| NoAddress)?;
        if host.is_empty() { Err(NoAddress) } else { Ok(Address { host: host.to_owned(), port }) }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_the_name_that_its_cluster_gave_it() {
        let check = |variables: &[(&str, &str)], expect: &str| {
            let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
            let found = node_name(|name| find(name).map(|(_, value)| (*value).to_owned()));
            assert_eq!(found, expect);
        };
        check(&[("SLURMD_NODENAME", "n7")], "n7");
        check(
            &[("TRAIND_NODE_NAME", "ip-10-0-0-7.internal"), ("SLURMD_NODENAME", "n7")],
            "ip-10-0-0-7.internal",
        );
        check(&[("TRAIND_NODE_NAME", "")], &host_name());
    }

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in ["node-7:80", "10.0.0.1:7733", "[fe80::1]:1"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["node", "node:", ":80", "fe80::1:80", "node:70000", ""] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
