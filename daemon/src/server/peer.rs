//! Who calls: the user at the other end of the unix socket.

use std::fs;

use tonic::Request;

use crate::access::Caller;
use crate::error::Error;

/// Whom the guard let in.
pub(super) fn caller<T>(request: &Request<T>) -> Result<Caller, Error> {
    request.extensions().get::<Caller>().cloned().ok_or(Error::Nobody)
}

/// The user's name, or the user id where it has no name.
pub(crate) fn user_name(uid: u32) -> String {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = passwd.lines().find_map(|line| name_of(line, uid));
    name.map_or_else(|| uid.to_string(), str::to_owned)
}

fn name_of(line: &str, uid: u32) -> Option<&str> {
    let mut fields = line.split(':');
    let name = fields.next()?;
    (fields.nth(1)?.parse() == Ok(uid)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_passwd_gives_its_name() {
        assert_eq!(name_of("ann:x:1000:1000::/home/ann:/bin/sh", 1000), Some("ann"));
        assert_eq!(name_of("ann:x:1000:1000::/home/ann:/bin/sh", 1001), None);
        assert_eq!(name_of("broken", 0), None);
    }
}
