//! The members of a backup's archive. The crate `tar` reads names of any length into memory, and an archive of a few
//! kilobytes can have one that fills it; here they are bounded.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use tar::{Archive, Entries, Entry, EntryType};

/// Bytes of a path at most, as the kernel has it.
const NAME_BYTES_MAX: u64 = 4096;

/// A file or a link.
pub(super) struct Member<'a, R: Read> {
    pub(super) entry: Entry<'a, R>,
    pub(super) name: PathBuf,
    /// Where a link leads.
    pub(super) link: Option<PathBuf>,
}

/// The members of an archive, in order. Extensions of headers in the format pax are members of an odd kind here: no
/// backup has them.
pub(super) struct Members<'a, R: Read> {
    entries: Entries<'a, R>,
}

impl<'a, R: Read> Members<'a, R> {
    pub(super) fn new(archive: &'a mut Archive<R>) -> io::Result<Self> {
        Ok(Self { entries: archive.entries()?.raw(true) })
    }

    fn read_next(&mut self) -> io::Result<Option<Member<'a, R>>> {
        let (mut long_name, mut long_link) = (None, None);
        while let Some(entry) = self.entries.next().transpose()? {
            let long = match entry.header().entry_type() {
                EntryType::GNULongName => &mut long_name,
                EntryType::GNULongLink => &mut long_link,
                _ => {
                    let name = long_name.map_or_else(|| own(entry.path()), Ok)?;
                    let own_link = || entry.link_name().map(|link| link.map(|it| it.into_owned()));
                    let link = long_link.map_or_else(own_link, |link| Ok(Some(link)))?;
                    return Ok(Some(Member { entry, name, link }));
                }
            };
            *long = Some(read_name(entry)?);
        }
        Ok(None)
    }
}

fn own(path: io::Result<std::borrow::Cow<'_, std::path::Path>>) -> io::Result<PathBuf> {
    path.map(std::borrow::Cow::into_owned)
}

/// Reads the name that is the content of a member, and ends with a zero.
fn read_name<R: Read>(entry: Entry<'_, R>) -> io::Result<PathBuf> {
    let bytes = entry.header().entry_size()?;
    if bytes > NAME_BYTES_MAX {
        let problem = format!("it has a name of {bytes} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    let mut name = Vec::new();
    entry.take(NAME_BYTES_MAX).read_to_end(&mut name)?;
    if name.last() == Some(&0) {
        name.pop();
    }
    Ok(OsString::from_vec(name).into())
}

impl<'a, R: Read> Iterator for Members<'a, R> {
    type Item = io::Result<Member<'a, R>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read_next().transpose()
    }
}
