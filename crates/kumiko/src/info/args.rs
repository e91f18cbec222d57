//! What is typed after `kumiko info`.

use clap::{Args, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum Info {
    /// Run an info server in the foreground: tells about this host, or is an index for others.
    Serve(Serve),
    /// The info server of a site for many accounts, kept up; started by the site's monitor.
    #[command(hide = true)]
    Keep {
        #[arg(long, value_name = "ADDR:PORT")]
        listen: SocketAddr,
    },
    /// Hosts that match an expression, as in 'cpus >= 8 and mem_free > 16GB and load < 0.5'.
    Query {
        #[command(flatten)]
        query: Asked,
        #[command(flatten)]
        server: Server,
    },
    /// The same, and then what changes, as it happens.
    Watch {
        #[command(flatten)]
        query: Asked,
        #[command(flatten)]
        server: Server,
    },
    /// All about one host, or about the entry of a name such as 'Mds-Host-hn=a, Mds-Vo-name=b, o=grid'.
    Show {
        name: String,
        #[command(flatten)]
        server: Server,
    },
    /// What can be asked for, with units.
    Attributes {
        /// Only those that some entry has.
        #[arg(long)]
        used: bool,
        #[command(flatten)]
        server: Server,
    },
    /// The server itself: who is registered with it, and where it is registered.
    Status {
        #[command(flatten)]
        server: Server,
    },
}

#[derive(Debug, Args)]
pub struct Serve {
    /// Settings [default: info.toml in the home]; without the file all are default.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where it keeps its identity and what it knows [default: info in the home].
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Address and port, instead of those of the settings; port 0 takes a free one.
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<SocketAddr>,
    /// Its name, instead of that of the settings.
    #[arg(long)]
    pub name: Option<String>,
}

/// Which server.
#[derive(Debug, Args)]
pub struct Server {
    /// HOST or HOST:PORT [default: the one that serves from this home].
    #[arg(long = "server", value_name = "SERVER", env = "KUMIKO_INFO")]
    pub address: Option<String>,
}

#[derive(Debug, Args)]
pub struct Asked {
    /// Comparisons joined by and, or, not; none: every host.
    #[arg(default_value = "")]
    pub expression: String,
    /// What to order by, as in 'cpu_free desc, host'.
    #[arg(long, value_name = "ORDER")]
    pub rank: Option<String>,
    /// At most so many.
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Entries of every class, not only hosts.
    #[arg(long)]
    pub all: bool,
    /// An LDAP filter besides.
    #[arg(long, value_name = "FILTER")]
    pub filter: Option<String>,
    /// What to show of each, by short name or LDAP name.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub attributes: Vec<String>,
}

/// Sites by what they are like, as an index tells.
#[derive(Debug, Args)]
pub struct Among {
    /// Choose among the sites that an index knows: comparisons joined by and, or, not, as in 'cpus >= 8 and mem_free > 4GB'
    /// ("": any that will do). Then --site means nothing.
    #[arg(long = "where", value_name = "EXPR")]
    pub requirement: Option<String>,
    /// What to order them by, as in 'slots_free desc, latency' [default: slots_free desc, waiting, latency].
    #[arg(long, value_name = "ORDER", requires = "requirement")]
    pub rank: Option<String>,
    /// The index, HOST or HOST:PORT [default: `index` of kumiko.toml, or the info server of this home].
    #[arg(long, value_name = "SERVER", env = "KUMIKO_INFO")]
    pub index: Option<String>,
}
