//! Addresses on the command line.

use std::net::{Ipv4Addr, SocketAddr};

/// Reads `127.0.0.1:9400`, `[::1]:9400` or `localhost:9400`, which means the first of them. Other names
/// are not resolved, since they may mean several addresses.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:").and_then(|port| port.parse::<u16>().ok());
    match port {
        Some(port) => Ok((Ipv4Addr::LOCALHOST, port).into()),
        None => text.parse().map_err(|_| {
            "must be ADDRESS:PORT such as 127.0.0.1:9400, [::1]:9400 or localhost:9400; other names of \
             hosts are not resolved"
                .to_owned()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn localhost_is_an_address() {
        let read = |text: &str| address(text).map(|address| address.to_string());
        assert_eq!(read("localhost:9400").as_deref(), Ok("127.0.0.1:9400"));
        assert_eq!(read("[::1]:80").as_deref(), Ok("[::1]:80"));
        for text in ["localhost", "localhost:x", "host:9400", "127.0.0.1", ":9400", ""] {
            let sentence = read(text).unwrap_err();
            assert!(sentence.contains("localhost:9400"), "{text}: {sentence}");
        }
    }
}
