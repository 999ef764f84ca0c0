//! Hosts with networks of their own on this machine: two network namespaces, joined by a link.

use std::fs::{self, File, Permissions};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Where host 0 listens.
const PORT: u16 = 7733;
static MADE: AtomicU32 = AtomicU32::new(0);

/// Two namespaces, which are removed when this is dropped.
#[derive(Debug)]
pub struct Network {
    name: String,
}

impl Network {
    /// Makes the namespaces; `None` with a message where this machine does not permit it.
    #[allow(clippy::print_stderr)]
    pub fn joined() -> Option<Network> {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let network = Network { name: format!("traind-{}-{number}", std::process::id()) };
        match network.make() {
            Ok(()) => Some(network),
            Err(problem) => {
                eprintln!("skipped: no network namespaces: {problem}");
                None
            }
        }
    }

    fn make(&self) -> Result<(), String> {
        let spaces = [0, 1].map(|host| self.namespace(host));
        for space in &spaces {
            ip(&["netns", "add", space])?;
        }
        let link = ["link", "add", "eth0", "type", "veth", "peer", "name", "eth0"];
        ip(&[&["-n", &spaces[0]], &link[..], &["netns", &spaces[1]]].concat())?;
        for (host, space) in spaces.iter().enumerate() {
            let address = format!("{}/24", Network::address(host));
            ip(&["-n", space, "address", "add", &address, "dev", "eth0"])?;
            ip(&["-n", space, "link", "set", "eth0", "up"])?;
            ip(&["-n", space, "link", "set", "lo", "up"])?;
        }
        Ok(())
    }

    fn namespace(&self, host: usize) -> String {
        format!("{}-{host}", self.name)
    }

    /// The address of a host.
    pub fn address(host: usize) -> String {
        format!("10.77.0.{}", host + 1)
    }

    /// Where the hosts meet.
    pub fn coordinator() -> String {
        format!("{}:{PORT}", Network::address(0))
    }

    /// Options with which `mpirun`, on host 0, starts a process on each host. It does that by a script in `folder`,
    /// which takes the place of `ssh`.
    pub fn mpirun_options(&self, folder: &Path) -> Vec<String> {
        let (shell, name) = (folder.join("shell"), &self.name);
        let text = format!(
            "#!/bin/sh\nwhile case $1 in -*) true ;; *) false ;; esac; do shift; done\n\
             host=$((${{1##*.}} - 1)); shift\nexec ip netns exec {name}-$host /bin/sh -c \"$*\"\n"
        );
        fs::write(&shell, text).unwrap();
        fs::set_permissions(&shell, Permissions::from_mode(0o755)).unwrap();
        let [first, second] = [0, 1].map(Network::address);
        let options = format!(
            "-localhost {first} -hosts {first},{second} -n 2 -genv TRAIND_COORDINATOR {} -launcher ssh -launcher-exec {}",
            Network::coordinator(),
            shell.display()
        );
        options.split(' ').map(str::to_owned).collect()
    }

    /// Runs `act` on a host, with the processes that it spawns.
    pub fn inside<T: Send>(&self, host: usize, act: impl FnOnce() -> T + Send) -> T {
        let space = File::open(format!("/run/netns/{}", self.namespace(host))).unwrap();
        // A namespace is that of a thread.
        let enter_and_act = || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(space.as_fd(), kind).unwrap();
            act()
        };
        thread::scope(|scope| scope.spawn(enter_and_act).join().unwrap())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in [0, 1] {
            // There is none where it could not be made.
            let _ = ip(&["netns", "delete", &self.namespace(host)]);
        }
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let Output { status, stderr, .. } =
        Command::new("ip").args(arguments).output().map_err(|error| format!("run ip: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&stderr).trim().to_owned()),
    }
}
