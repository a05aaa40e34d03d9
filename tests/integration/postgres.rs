//! A PostgreSQL of the suite's own: one server for all tests, a database for each; gone when the suite has ended.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::unix::{fs::chown, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use tempfile::TempDir;

use crate::program::until;

/// Debian's and the usual places of the server's programs.
fn program(name: &str) -> PathBuf {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = debian.chain(std::env::split_paths(&path)).collect();
    directories.sort_by_key(|directory| !directory.starts_with("/usr/lib/postgresql"));
    let found = directories.into_iter().map(|directory| directory.join(name)).find(|program| program.exists());
    found.unwrap_or_else(|| panic!("there is no `{name}`: install PostgreSQL, e.g. `apt-get install postgresql`"))
}

struct Server {
    directory: PathBuf,
    /// It takes commands, and stops when this process ends.
    watched: Child,
}

/// The user that the server runs as: it refuses to run as root.
const NOBODY: u32 = 65534;

fn as_nobody(command: &str) -> Command {
    let root = std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !root {
        return Command::new(command);
    }
    let mut setpriv = Command::new("setpriv");
    setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(command);
    setpriv
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start("off"))
}

/// Serves until its standard input ends, which is when this process ends, however it ends; a line there stops it, or starts it
/// again.
const SCRIPT: &str = r#"program=$0; directory=$1; fsync=$2
    serve() { "$program" -D "$directory/data" -c listen_addresses= -c unix_socket_directories="$directory" -c max_connections=200 -c fsync="$fsync" >>"$directory/log" 2>&1 & server=$!; }
    serve
    while read -r command; do
        case $command in stop) kill -INT $server;; crash) kill -QUIT $server;; esac
        case $command in start) serve;; *) wait $server;; esac
        echo done
    done
    kill -INT $server; wait $server; rm -rf "$directory""#;

impl Server {
    /// `fsync`: `on` or `off`.
    fn start(fsync: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("toolmark-pg-").tempdir().unwrap().keep();
        // Where it isn't root, this changes nothing.
        let _unchanged = chown(&directory, Some(NOBODY), Some(NOBODY));
        let data = directory.join("data");
        let made = as_nobody(program("initdb").to_str().unwrap())
            .args(["--auth=trust", "--username=toolmark", "--encoding=UTF8", "--no-locale", "--no-sync", "-D"])
            .arg(&data)
            .current_dir("/")
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let watched = as_nobody("sh")
            .args(["-c", SCRIPT])
            .arg(program("postgres"))
            .arg(&directory)
            .arg(fsync)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { directory, watched };
        server.answers();
        server
    }

    /// Waits until it takes connections.
    fn answers(&self) {
        until("PostgreSQL answers", || postgres::Client::connect(&url(&self.directory, "postgres"), postgres::NoTls).ok());
    }

    /// `stop`, `crash` or `start`; returns once that is done.
    fn command(&mut self, command: &str) {
        writeln!(self.watched.stdin.as_mut().unwrap(), "{command}").unwrap();
        let mut done = [0; 5];
        self.watched.stdout.as_mut().unwrap().read_exact(&mut done).unwrap();
    }
}

/// A server of a test's own, which it may stop and start.
pub struct OwnServer(Server);

impl OwnServer {
    pub fn start() -> Self {
        Self::syncing("off")
    }

    /// `fsync`: `on` if what is committed survives a crash of the machine, which is what tests can do without.
    pub fn syncing(fsync: &str) -> Self {
        let own = Self(Server::start(fsync));
        own.client("postgres").batch_execute("CREATE DATABASE soak").unwrap();
        own
    }

    /// As `[ledger] url` takes it.
    pub fn url(&self) -> String {
        url(&self.0.directory, "soak")
    }

    /// The process that takes commands of this test, of which the server is a child.
    #[allow(dead_code, reason = "the benchmark counts what the server takes")]
    pub fn process(&self) -> u32 {
        self.0.watched.id()
    }

    pub fn client(&self, database: &str) -> postgres::Client {
        postgres::Client::connect(&url(&self.0.directory, database), postgres::NoTls).unwrap()
    }

    /// Stops it: in order, or as a crash does.
    pub fn stop(&mut self, crash: bool) {
        self.0.command(if crash { "crash" } else { "stop" });
    }

    /// Starts it again; returns once it takes connections.
    pub fn start_again(&mut self) {
        self.0.command("start");
        self.0.answers();
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        // The script ends with its standard input, and removes the directory.
        drop(self.0.watched.stdin.take());
        let _ended = self.0.watched.wait();
    }
}

fn url(directory: &Path, database: &str) -> String {
    format!("postgres://toolmark@{}/{database}", directory.display().to_string().replace('/', "%2F"))
}

/// A database of a test's own.
pub struct Database {
    name: String,
}

impl Database {
    pub fn new() -> Self {
        Self::made("")
    }

    fn made(from: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("t{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut client = postgres::Client::connect(&url(&server().directory, "postgres"), postgres::NoTls).unwrap();
        client.batch_execute(&format!("CREATE DATABASE {name}{from}")).unwrap();
        Self { name }
    }

    /// One with the same content, which nobody may be using.
    pub fn copy_of(other: &Self) -> Self {
        Self::made(&format!(" TEMPLATE {}", other.name))
    }

    /// As `[ledger] url` takes it.
    pub fn url(&self) -> String {
        url(&server().directory, &self.name)
    }

    pub fn client(&self) -> postgres::Client {
        postgres::Client::connect(&self.url(), postgres::NoTls).unwrap()
    }

    /// The same database by a way that can be cut.
    pub fn line(&self) -> Line {
        Line::new(server().directory.join(".s.PGSQL.5432"), &self.name)
    }
}

/// A way to the database that can be cut and mended.
pub struct Line {
    address: SocketAddr,
    name: String,
    cut: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<(TcpStream, UnixStream)>>>,
}

impl Line {
    /// A way to a server behind this socket. `name`: of its database.
    pub fn new(socket: PathBuf, name: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (cut, open) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (is_cut, all) = (cut.clone(), open.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                // While it is cut, whoever connects is turned away.
                let Ok(server) = UnixStream::connect(&socket) else { continue };
                if is_cut.load(Ordering::SeqCst) {
                    continue;
                }
                all.lock().unwrap().push((stream.try_clone().unwrap(), server.try_clone().unwrap()));
                let (mut up, mut down) = ((stream.try_clone().unwrap(), server.try_clone().unwrap()), (server, stream));
                std::thread::spawn(move || (std::io::copy(&mut up.0, &mut up.1).is_ok(), up.1.shutdown(Shutdown::Write).is_ok()));
                std::thread::spawn(move || (std::io::copy(&mut down.0, &mut down.1).is_ok(), down.1.shutdown(Shutdown::Write).is_ok()));
            }
        });
        Self { address, name: name.to_owned(), cut, open }
    }

    pub fn url(&self) -> String {
        format!("postgres://toolmark@{}/{}?sslmode=disable", self.address, self.name)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Nothing gets through any more.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
        for (client, server) in self.open.lock().unwrap().drain(..) {
            let _ended = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
        }
    }

    pub fn mend(&self) {
        self.cut.store(false, Ordering::SeqCst);
    }
}

/// What the server said, for when a test fails.
pub fn log() -> String {
    let mut text = String::new();
    let file = std::fs::File::open(server().directory.join("log"));
    let _unread = file.map(|mut file| file.read_to_string(&mut text));
    text
}

/// A ledger of either kind, in a directory of its own.
pub enum Ledger {
    Sqlite(TempDir),
    Postgres(TempDir, Database),
}

impl Ledger {
    pub fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub fn postgres() -> Self {
        Self::Postgres(tempfile::tempdir().unwrap(), Database::new())
    }

    pub fn directory(&self) -> &Path {
        match self {
            Self::Sqlite(directory) | Self::Postgres(directory, _) => directory.path(),
        }
    }

    /// As `[ledger] url` takes it.
    pub fn url(&self) -> String {
        match self {
            Self::Sqlite(directory) => format!("sqlite:{}", directory.path().join("toolmark.db").display()),
            Self::Postgres(_, database) => database.url(),
        }
    }

    /// Runs SQL on what is stored.
    pub fn execute(&self, sql: &str) {
        match self {
            Self::Sqlite(directory) => {
                let connection = rusqlite::Connection::open(directory.path().join("toolmark.db")).unwrap();
                connection.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            }
            Self::Postgres(_, database) => {
                database.client().batch_execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}\n{}", log()));
            }
        }
    }
}
