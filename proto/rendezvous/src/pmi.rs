//! A process manager for MPICH's libraries: answers the wire protocol of PMI-1 out of the rendezvous.
//!
//! So `MPI_Init` works however the runners were started, and needs no launcher of MPI's own. The library
//! expects the file descriptor of a connection in `PMI_FD`, and `PMI_RANK` and `PMI_SIZE`. A message is a line
//! `cmd=NAME KEY=VALUE …`; a value ends at a space, except for that of `put`, which may have some.
//!
//! Source: MPICH, `src/pmi/src/pmi_v1.c` and `pmi_wire.c`.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Barrier, Mutex, PoisonError};

use crate::client::Client;
use crate::error::{RendezvousError, Result};

/// The longest name and value, which the library obeys.
const KEY_BYTES_MAX: usize = 64;
const VALUE_BYTES_MAX: usize = 1024;
/// The name of the only space of keys.
const SPACE: &str = "traind";
/// Where keys of MPI stand among those of the rendezvous.
const PREFIX: &str = "pmi/";
/// The channel of MPI's barriers.
const BARRIER: &str = "MPI";

/// Values that the processes of an MPI job share.
trait Processes: Send + 'static {
    fn size(&self) -> u32;
    fn put(&self, key: &str, value: &str) -> Result<()>;
    fn get(&self, key: &str) -> Result<Option<String>>;
    fn barrier(&self) -> Result<()>;
}

/// Answers on a thread of its own until the library finalizes or the process ends. Returns the library's end
/// of the connection.
pub fn serve_pmi(client: Client) -> Result<UnixStream> {
    serve(client)
}

/// Lets `size` processes of this host meet without a rendezvous. Returns the library's end of each connection.
pub fn serve_pmi_on_host(size: u32) -> Result<Vec<UnixStream>> {
    let (values, barrier) = (Arc::default(), Arc::new(Barrier::new(size as usize)));
    let processes = OnHost { size, values, barrier };
    (0..size).map(|_| serve(processes.clone())).collect()
}

fn serve(processes: impl Processes) -> Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair().map_err(RendezvousError::Start)?;
    let thread = std::thread::Builder::new().name("pmi".to_owned());
    // The library reports a connection that breaks.
    let answer_all = move || answer_all(&ours, &processes);
    thread.spawn(answer_all).map_err(RendezvousError::Start)?;
    Ok(theirs)
}

impl Processes for Client {
    fn size(&self) -> u32 {
        Client::size(self)
    }

    fn put(&self, key: &str, value: &str) -> Result<()> {
        Client::put(self, &format!("{PREFIX}{key}"), value.as_bytes().to_vec())
    }

    fn get(&self, key: &str) -> Result<Option<String>> {
        let value = self.try_get(&format!("{PREFIX}{key}"))?;
        Ok(value.map(|value| String::from_utf8_lossy(&value).into_owned()))
    }

    fn barrier(&self) -> Result<()> {
        Client::barrier(self, BARRIER, None)
    }
}

/// Processes that have this one as their process manager.
#[derive(Clone)]
struct OnHost {
    size: u32,
    values: Arc<Mutex<HashMap<String, String>>>,
    barrier: Arc<Barrier>,
}

impl Processes for OnHost {
    fn size(&self) -> u32 {
        self.size
    }

    fn put(&self, key: &str, value: &str) -> Result<()> {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    fn get(&self, key: &str) -> Result<Option<String>> {
        Ok(self.values.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned())
    }

    fn barrier(&self) -> Result<()> {
        self.barrier.wait();
        Ok(())
    }
}

fn answer_all(stream: &UnixStream, processes: &impl Processes) -> std::io::Result<()> {
    let mut writer = stream;
    for line in BufReader::new(stream).lines() {
        let line = line?;
        let message = Message(&line);
        let answer = answer(&message, processes).unwrap_or_else(|error| {
            let command = message.command();
            let problem = error.to_string().replace([' ', '\n'], "_");
            format!("cmd={command}_result rc=-1 msg={problem}")
        });
        writer.write_all(format!("{answer}\n").as_bytes())?;
        if message.command() == "finalize" {
            break;
        }
    }
    Ok(())
}

fn answer(message: &Message<'_>, processes: &impl Processes) -> Result<String> {
    Ok(match message.command() {
        "init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".to_owned(),
        "get_maxes" => format!(
            "cmd=maxes rc=0 kvsname_max={KEY_BYTES_MAX} keylen_max={KEY_BYTES_MAX} \
             vallen_max={VALUE_BYTES_MAX}"
        ),
        "get_appnum" => "cmd=appnum rc=0 appnum=0".to_owned(),
        "get_my_kvsname" => format!("cmd=my_kvsname rc=0 kvsname={SPACE}"),
        "get_universe_size" => format!("cmd=universe_size rc=0 size={}", processes.size()),
        "put" => {
            processes.put(message.get("key"), message.rest("value"))?;
            "cmd=put_result rc=0 msg=success".to_owned()
        }
        "get" => match value(message.get("key"), processes)? {
            Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
            None => "cmd=get_result rc=-1 msg=key_not_found value=unknown".to_owned(),
        },
        "barrier_in" => {
            processes.barrier()?;
            "cmd=barrier_out rc=0".to_owned()
        }
        "finalize" => "cmd=finalize_ack rc=0".to_owned(),
        command => format!("cmd={command}_result rc=-1 msg=not_supported"),
    })
}

/// Each process is a node of its own: shared memory between processes of one machine would need one that
/// they also see alike, which containers need not.
fn value(key: &str, processes: &impl Processes) -> Result<Option<String>> {
    match key {
        "PMI_process_mapping" => Ok(Some(format!("(vector,(0,{},1))", processes.size()))),
        _ => processes.get(key),
    }
}

/// A line of the protocol.
struct Message<'a>(&'a str);

impl<'a> Message<'a> {
    fn command(&self) -> &'a str {
        self.get("cmd")
    }

    /// The value of a key, up to the next space; empty where it is absent.
    fn get(&self, key: &str) -> &'a str {
        self.rest(key).split(' ').next().unwrap_or_default()
    }

    /// The value of a key that is the last one, and may contain spaces.
    fn rest(&self, key: &str) -> &'a str {
        let mut rest = self.0;
        while let Some((name, value)) = rest.split_once('=') {
            if name == key {
                return value;
            }
            let Some((_, next)) = value.split_once(' ') else { break };
            rest = next;
        }
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends the lines of `dialog` that begin with `>`, and expects the others.
    fn talk(mut stream: UnixStream, dialog: &str) {
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        for line in dialog.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match line.strip_prefix("> ") {
                Some(sent) => writeln!(stream, "{sent}").unwrap(),
                None => assert_eq!(lines.next().unwrap().unwrap(), line),
            }
        }
    }

    #[test]
    fn the_protocol_of_mpich_is_answered() {
        let [first, second] = serve_pmi_on_host(2).unwrap().try_into().unwrap();
        let meet = std::thread::spawn(move || {
            talk(
                second,
                "> cmd=init pmi_version=1 pmi_subversion=1
                 cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0
                 > cmd=put kvsname=traind key=-bc-1 value=fi_addr=10 x=y z
                 cmd=put_result rc=0 msg=success
                 > cmd=barrier_in
                 cmd=barrier_out rc=0",
            );
        });
        talk(
            first,
            "> cmd=get_maxes
             cmd=maxes rc=0 kvsname_max=64 keylen_max=64 vallen_max=1024
             > cmd=get_my_kvsname
             cmd=my_kvsname rc=0 kvsname=traind
             > cmd=get_universe_size
             cmd=universe_size rc=0 size=2
             > cmd=get_appnum
             cmd=appnum rc=0 appnum=0
             > cmd=get kvsname=traind key=PMI_process_mapping
             cmd=get_result rc=0 msg=success value=(vector,(0,2,1))
             > cmd=barrier_in
             cmd=barrier_out rc=0
             > cmd=get kvsname=traind key=-bc-1
             cmd=get_result rc=0 msg=success value=fi_addr=10 x=y z
             > cmd=get kvsname=traind key=-bc-2
             cmd=get_result rc=-1 msg=key_not_found value=unknown
             > cmd=spawn nprocs=1
             cmd=spawn_result rc=-1 msg=not_supported
             > cmd=finalize
             cmd=finalize_ack rc=0",
        );
        meet.join().unwrap();
    }
}
