//! Engines of a test's own, which may be harmed.

use super::*;

/// A Slurm of this test's own, which may be harmed.
pub struct OwnSlurm {
    pub engine: Engine,
    fixture: FakeFixture,
}

impl OwnSlurm {
    pub fn new(test: &str, environment: &[(&str, &str)]) -> Option<Self> {
        Some(Self {
            fixture: FakeFixture::new(test)?,
            engine: Engine::own("slurm", environment, test)?,
        })
    }

    pub fn open(&self, sink: Arc<Record>) -> Slurm {
        self.open_by(sink, |tools| tools)
    }

    /// With other tools than its own.
    pub fn open_by(&self, sink: Arc<Record>, other: impl FnOnce(Tools) -> Tools) -> Slurm {
        let root = self.fixture.top.path().join("spools");
        let site = engine::site(&root).unwrap();
        let commands = slurm::Commands(other(tools(&self.engine)));
        Slurm::new(commands, site, root, self.fixture.runner.clone(), sink)
    }

    pub fn open_copied(&self, sink: Arc<Record>) -> Slurm {
        let root = self.fixture.top.path().join("spools");
        let site = engine::site(&root).unwrap();
        let program = copied(&self.fixture.runner, self.top());
        Cluster::new(
            slurm::Commands(tools(&self.engine)),
            site,
            root,
            program,
            sink,
        )
    }

    /// One whose hosts can be drained.
    pub fn drainable(&self, sink: Arc<Record>) -> Cluster<Drained<slurm::Commands>> {
        let root = self.fixture.top.path().join("spools");
        let site = engine::site(&root).unwrap();
        let commands = slurm::Commands(tools(&self.engine));
        let drained = Drained::new(commands, BTreeSet::new());
        Cluster::new(drained, site, root, self.fixture.runner.clone(), sink)
    }

    pub fn piloted(&self, sink: Arc<Record>, pilots: Pilots) -> Cluster<Piloted<slurm::Commands>> {
        let root = self.fixture.top.path().join("spools");
        let site = engine::site(&root).unwrap();
        let commands = slurm::Commands(tools(&self.engine));
        let runner = self.fixture.runner.clone();
        let piloted = Piloted::new(commands, site.clone(), root.clone(), runner.clone(), pilots);
        Cluster::new(piloted, site, root, runner, sink)
    }

    /// As a site with a landing has it.
    pub fn ferried(
        &self,
        sink: Arc<Record>,
        pilots: Pilots,
        ferry: PathBuf,
    ) -> Cluster<Piloted<slurm::Commands>> {
        let root = self.fixture.top.path().join("spools");
        let site = engine::site(&root).unwrap();
        let commands = slurm::Commands(tools(&self.engine));
        let landing = Landing::open(&root, &"127.0.0.1".parse().unwrap()).unwrap();
        landing.serve();
        let program = Program::from(self.fixture.runner.clone());
        let program = program.ferried(ferry, &root, landing).unwrap();
        let piloted = Piloted::new(
            commands,
            site.clone(),
            root.clone(),
            program.clone(),
            pilots,
        );
        Cluster::new(piloted, site, root, program, sink)
    }

    pub fn top(&self) -> &Path {
        self.fixture.top.path()
    }
}

/// An HTCondor of this test's own, with settings of its own.
pub struct OwnCondor {
    pub engine: Engine,
    fixture: FakeFixture,
}

impl OwnCondor {
    pub fn new(test: &str, settings: &str) -> Option<Self> {
        Some(Self {
            fixture: FakeFixture::new(test)?,
            engine: Engine::own("condor", &[("CONDOR_SETTINGS", settings)], test)?,
        })
    }

    pub fn open(&self, sink: Arc<Record>) -> Condor {
        self.open_by(sink, |tools| tools)
    }

    /// With other tools than its own.
    pub fn open_by(&self, sink: Arc<Record>, other: impl FnOnce(Tools) -> Tools) -> Condor {
        let root = self.fixture.top.path().join("spools");
        let site = engine::site(&root).unwrap();
        let commands = condor::Commands(other(tools(&self.engine)));
        Condor::new(commands, site, root, self.fixture.runner.clone(), sink)
    }

    pub fn piloted(&self, sink: Arc<Record>, pilots: Pilots) -> Cluster<Piloted<condor::Commands>> {
        let root = self.fixture.top.path().join("spools");
        let site = engine::site(&root).unwrap();
        let commands = condor::Commands(tools(&self.engine));
        let runner = self.fixture.runner.clone();
        let piloted = Piloted::new(commands, site.clone(), root.clone(), runner.clone(), pilots);
        Cluster::new(piloted, site, root, runner, sink)
    }

    pub fn top(&self) -> &Path {
        self.fixture.top.path()
    }
}
