//! Differences between systems where files are opened and written: access rights, writes at a place, identity.

use std::{
    fs::{File, OpenOptions},
    io,
    path::Path,
};

/// Lets only the owner read a file that is made with these options. On Windows a file has the rights of its directory.
pub fn make_private(options: &mut OpenOptions) {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    #[cfg(not(unix))]
    let _as_its_directory = options;
}

/// Writes all bytes at this offset of a file. Where several threads write, each writes its own place.
///
/// # Errors
/// [`io::Error`] of the system: some of the bytes may be written.
pub fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::write_all_at(file, bytes, offset);
    #[cfg(windows)]
    {
        let (mut rest, mut at) = (bytes, offset);
        while !rest.is_empty() {
            let written = std::os::windows::fs::FileExt::seek_write(file, rest, at)?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            rest = rest.get(written..).unwrap_or_default();
            at += written as u64;
        }
        Ok(())
    }
}

/// Numbers that tell whether a path still leads to the same file: device and inode. On Windows, where a file that is open can't be
/// replaced, only whether there is one.
pub fn identity(path: &Path) -> Option<(u64, u64)> {
    let file = std::fs::metadata(path).ok()?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        Some((file.dev(), file.ino()))
    }
    #[cfg(not(unix))]
    {
        file.is_file().then_some((0, 0))
    }
}
