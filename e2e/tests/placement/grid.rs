//! Several sites of one authority on this machine, an index that knows them, and a way to one of them that can be cut.

use kumiko_e2e::info::{Server, index_settings};
use kumiko_e2e::{Person, finish, told, until};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Output;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Of a request that is big enough to be told from all else that goes to a site.
pub const REQUEST_BYTES: usize = 100_000;

const PIECE_BYTES: usize = 4096;
const SLOWLY: Duration = Duration::from_millis(5);

/// What of a home makes it one of the same authority, with the same user.
const IDENTITY: [&str; 6] = [
    "ca",
    "certificates",
    "hostcert.pem",
    "hostkey.pem",
    "user",
    "grid-mapfile",
];

/// Who submits, and the index.
pub struct Grid {
    pub me: Person,
    pub index: Server,
}

impl Grid {
    pub fn new() -> Grid {
        let me = Person::new();
        let index = Server::start(&me, "top", "127.0.0.1:0", &index_settings(None));
        Grid { me, index }
    }

    /// A site that tells the index of itself.
    pub fn site(&self, name: &str, capacity: &str) -> Person {
        let settings = format!(
            "name = \"{name}\"\nhost_name = \"{name}.example\"\n[[register]]\naddress = \"{}\"\nttl_ms = 600000\nheartbeat_ms = 500\n",
            self.index.address
        );
        self.start(Some(&settings), capacity)
    }

    /// One of which only others tell.
    pub fn silent_site(&self) -> Person {
        self.start(None, "")
    }

    pub fn start(&self, info: Option<&str>, capacity: &str) -> Person {
        let site = Person::new();
        let home = site.kumiko_home();
        std::fs::create_dir_all(&home).unwrap();
        for name in IDENTITY {
            let from = self.me.kumiko_home().join(name);
            let mut copy = site.program("cp", ["-a"]);
            let copied = finish(copy.arg(from).arg(&home));
            assert!(copied.status.success(), "{}", told(&copied));
        }
        let listen = "listen = \"127.0.0.1:0\"\n";
        let with_info = if info.is_some() {
            "info = \"127.0.0.1:0\"\n"
        } else {
            ""
        };
        site.file(
            "kumiko/site.toml",
            &format!("{listen}{with_info}capacity = {{ {capacity} }}\n"),
        );
        site.file("kumiko/info.toml", info.unwrap_or_default());
        site.ok(["site", "start"]);
        site
    }

    /// An info server that tells of sites what is not so: names, contacts and free slots.
    pub fn tell_of(&self, sites: &[(&str, &str, u32)]) -> Server {
        let entry = |(name, contact, slots): &(&str, &str, u32)| {
            format!(
                "{{\"dn\": \"Mds-Host-hn={name}.example\", \"attributes\": {{\"objectClass\": [\"Mds\", \"MdsHost\"], \
                 \"Mds-Host-hn\": \"{name}.example\", \"kumiko-site\": \"{name}\", \"kumiko-contact\": \"{contact}\", \
                 \"kumiko-batch\": \"fork\", \"kumiko-slots-free\": \"{slots}\", \"kumiko-slots-host\": \"{slots}\"}}}}"
            )
        };
        let entries: Vec<String> = sites.iter().map(entry).collect();
        let file = self
            .me
            .file("told.json", &format!("[{}]\n", entries.join(", ")));
        let settings = format!(
            "host = false\n[[register]]\naddress = \"{}\"\nttl_ms = 600000\nheartbeat_ms = 500\n\
             [[provider]]\nname = \"told\"\ncommand = [\"cat\", \"{}\"]\nevery_ms = 1000\nsandbox = false\n",
            self.index.address,
            file.display()
        );
        Server::start(&self.me, "teller", "127.0.0.1:0", &settings)
    }

    /// Waits until so many entries of the index match.
    #[track_caller]
    pub fn tells(&self, expression: &str, hosts: usize) {
        let words = ["info", "query", "--server", &self.index.address];
        until(
            &format!("the index tells of {hosts} with {expression}"),
            || {
                let more = ["--attributes", "host", expression];
                let output = self.me.run(words.iter().chain(&more));
                output.status.success() && told(&output).matches(".example").count() == hosts
            },
        );
    }

    /// `kumiko job submit` by what sites are like.
    pub fn submit(&self, words: &[&str]) -> Output {
        let all = [
            "--output",
            "json",
            "job",
            "submit",
            "--index",
            &self.index.address,
        ];
        self.me.run(all.iter().chain(words))
    }

    /// The same, which must succeed: the site, its contact, the job.
    #[track_caller]
    pub fn placed(&self, words: &[&str]) -> (String, String, String) {
        let output = self.submit(words);
        assert!(output.status.success(), "{}", told(&output));
        let there: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let text = |name: &str| there[name].as_str().unwrap().to_owned();
        (text("site"), text("contact"), there["job"].to_string())
    }
}

/// How many jobs a site has.
pub fn jobs(site: &Person) -> usize {
    let list = site.ok(["--output", "json", "job", "list"]);
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    list.as_array().unwrap().len()
}

/// The port that a site listens on.
pub fn port(site: &Person) -> u16 {
    kumiko_e2e::adversity::port(site)
}

/// What passes to a site, and what not.
#[derive(Clone, Copy, PartialEq)]
pub enum Passes {
    All,
    /// Nothing comes back once a request of `REQUEST_BYTES` is half through.
    NoAnswer,
    /// All, each piece outward after a while: less than a megabyte a second.
    Slowly,
    Nothing,
}

struct Way {
    passes: Passes,
    open: Vec<TcpStream>,
}

/// A way to a site, which can be cut.
pub struct Proxy {
    pub port: u16,
    way: Arc<Mutex<Way>>,
}

impl Proxy {
    pub fn to(port: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().port();
        let way = Arc::new(Mutex::new(Way {
            passes: Passes::All,
            open: Vec::new(),
        }));
        let shared = Arc::clone(&way);
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else {
                    continue;
                };
                let mut way = shared.lock().unwrap();
                if way.passes == Passes::Nothing {
                    continue;
                }
                way.open
                    .extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
                let sent = Arc::new(Mutex::new(0));
                let ends = (near.try_clone().unwrap(), far.try_clone().unwrap());
                carry(near, far, Arc::clone(&shared), Arc::clone(&sent), true);
                carry(ends.1, ends.0, Arc::clone(&shared), sent, false);
            }
        });
        Proxy { port: own, way }
    }

    /// From now on; what is on its way is cut, if something passes less than before or more.
    pub fn let_pass(&self, passes: Passes) {
        let mut way = self.way.lock().unwrap();
        way.passes = passes;
        for stream in way.open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn carry(
    mut from: TcpStream,
    mut to: TcpStream,
    way: Arc<Mutex<Way>>,
    sent: Arc<Mutex<usize>>,
    outward: bool,
) {
    std::thread::spawn(move || {
        let mut piece = [0; PIECE_BYTES];
        while let Ok(bytes @ 1..) = from.read(&mut piece) {
            let mut sent = sent.lock().unwrap();
            *sent += if outward { bytes } else { 0 };
            let asked = *sent > REQUEST_BYTES / 2;
            drop(sent);
            if outward && way.lock().unwrap().passes == Passes::Slowly {
                std::thread::sleep(SLOWLY);
            }
            if !outward && asked && way.lock().unwrap().passes == Passes::NoAnswer {
                continue;
            }
            if to.write_all(&piece[..bytes]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}
